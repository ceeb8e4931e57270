"""SearchSpace: a KnobSpace as a search sees it, around the baseline that a patch is relative to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from tools.targets.knobs import Config, Knob, KnobError, KnobSpace, Value

__all__ = ["SearchSpace"]

_SIGNIFICANT_BITS = 3

_FLOAT_LEVELS = 8


@dataclass(frozen=True)
class SearchSpace:
    """The tunable knobs that a search may move. Every other knob stays at its value in `baseline`.

    A patch holds only what differs from the baseline and has an effect: two patches never differ in nothing but knobs
    that are out of play.
    """

    knobs: KnobSpace
    baseline: Config

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        """One Optuna distribution per tunable knob, by name; a knob comes after the one its condition names.

        Raises:
            KnobError: a number without both bounds, which can't be searched.
        """
        return {name: _distribution(self.knobs[name]) for name in self._in_order}

    @cached_property
    def _in_order(self) -> tuple[str, ...]:
        names = [knob.name for knob in self.knobs if knob.tunable]
        return tuple(sorted(names, key=lambda name: len(self._conditions(name))))

    def _conditions(self, name: str) -> tuple[str, ...]:
        """The knobs that decide whether `name` is in play, the nearest first."""
        found: list[str] = []
        while name in self.knobs.knobs and (condition := self.knobs[name].only_when) is not None:
            name = condition[0]
            if name in found:
                raise KnobError(f"knob {name}: its condition leads back to itself")
            found.append(name)
        return tuple(found)

    @property
    def size(self) -> float:
        """How many assignments the space holds, those out of play counted too; infinite where a knob is a float."""
        return math.prod(len(grid) if (grid := _grid(self.knobs[name])) else math.inf for name in self.distributions)

    def levels(self, name: str) -> tuple[Value, ...]:
        """The values at which a coarse search looks at a knob: all of few, else numbers an octave apart.

        The baseline's own value is among them where the knob can take it.
        """
        return _levels(self.knobs[name], self.baseline.values.get(name))

    def active(self, point: Mapping[str, Value]) -> frozenset[str]:
        """Names of the searched knobs that have an effect where `point` changes the baseline."""
        if self._unconditional is not None:
            return self._unconditional
        return self.knobs.active({**self.baseline.values, **point}) & self.distributions.keys()

    @cached_property
    def _unconditional(self) -> frozenset[str] | None:
        """All searched knobs, where none depends on another."""
        free = all(self.knobs[name].only_when is None for name in self.distributions)
        return frozenset(self.distributions) if free else None

    def point(self, patch: Mapping[str, Value]) -> dict[str, Value] | None:
        """The full assignment of searched knobs that `patch` stands for; None where it lies outside this space."""
        values = {**self.baseline.values, **patch}
        try:
            return {name: self.knobs[name].check(values[name]) for name in self.distributions}
        except KnobError:
            return None

    def patch(self, point: Mapping[str, Value]) -> dict[str, Value]:
        """What `point` changes in the baseline, whole numbers rounded to three significant bits.

        So 3871 becomes 3584: near-equal configs are measured once, and a commit reads as if a person had chosen.
        """
        rounded = {name: _round(self.knobs[name], value) for name, value in point.items()}
        return self.reduce(rounded)

    def reduce(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """`values` by name, without what the baseline says already and what has no effect beside the rest."""
        active = self.active(values)
        return {
            name: value
            for name, value in sorted(values.items())
            if not self._same(name, value) and (name in active or name not in self.distributions)
        }

    def draw(self, random: Random) -> dict[str, Value]:
        """A patch drawn uniformly over the values of each knob; over their logarithms where it is searched so."""
        return self.patch({name: _draw(self.knobs[name], random) for name in self.distributions})

    def every_patch(self) -> Iterator[dict[str, Value]]:
        """All patches of a finite space, the baseline's own (empty) among them if its values lie on the grid.

        Where knobs depend on others a patch can come more than once.
        """
        names = list(self.distributions)
        for values in itertools.product(*(_grid(self.knobs[name]) for name in names)):
            yield self.reduce(dict(zip(names, values, strict=True)))

    def _same(self, name: str, value: Value) -> bool:
        standing = self.baseline.values.get(name)
        return type(standing) is type(value) and standing == value


def _distribution(knob: Knob) -> BaseDistribution:
    if knob.kind == "bool":
        return CategoricalDistribution([False, True])
    if knob.kind == "choice":
        return CategoricalDistribution(list(knob.choices))
    if knob.low is None or knob.high is None:
        raise KnobError(f"knob {knob.name}: expected a lowest and a highest value to search between, found none")
    log = knob.log and knob.low > 0
    if knob.kind == "int":
        return IntDistribution(int(knob.low), int(knob.high), log=log)
    return FloatDistribution(knob.low, knob.high, log=log)


def _round(knob: Knob, value: Value) -> Value:
    if knob.kind != "int" or isinstance(value, bool | str):
        return value
    assert knob.low is not None and knob.high is not None
    unit = 1 << max(0, abs(int(value)).bit_length() - _SIGNIFICANT_BITS)
    return min(max(round(value / unit) * unit, int(knob.low)), int(knob.high))


def _grid(knob: Knob) -> tuple[Value, ...]:
    """Every value that `_round` can yield; empty for a float."""
    if knob.kind == "bool":
        return (False, True)
    if knob.kind == "choice":
        return knob.choices
    if knob.kind == "float":
        return ()
    assert knob.low is not None and knob.high is not None
    values, value = [int(knob.low)], int(knob.low)
    while value < knob.high:
        value += 1 << max(0, abs(value).bit_length() - _SIGNIFICANT_BITS)
        rounded = _round(knob, min(value, int(knob.high)))
        values.append(int(rounded))
        value = max(value, int(rounded))
    return tuple(dict.fromkeys(values))


def _levels(knob: Knob, standing: Value | None) -> tuple[Value, ...]:
    if knob.kind in ("bool", "choice"):
        return _grid(knob)
    assert knob.low is not None and knob.high is not None
    found: set[int | float]
    if knob.kind == "float":
        steps = [step / (_FLOAT_LEVELS - 1) for step in range(_FLOAT_LEVELS)]
        if knob.log and knob.low > 0:
            found = {knob.low * (knob.high / knob.low) ** step for step in steps}
        else:
            found = {knob.low + (knob.high - knob.low) * step for step in steps}
    elif knob.high - knob.low <= _FLOAT_LEVELS:
        found = set(range(int(knob.low), int(knob.high) + 1))
    else:
        powers = {1 << bits for bits in range(int(knob.high).bit_length())} if knob.high >= 1 else set[int]()
        negative = {-power for power in powers} if knob.low < 0 else set[int]()
        octaves = {value for value in powers | negative | {0} if knob.low < value < knob.high}
        found = {int(knob.low), int(knob.high), *octaves}
    if not isinstance(standing, bool | str | None) and knob.low <= standing <= knob.high:
        found.add(standing)
    return tuple(sorted(found))


def _draw(knob: Knob, random: Random) -> Value:
    if knob.kind in ("bool", "choice"):
        return random.choice(_grid(knob))
    assert knob.low is not None and knob.high is not None
    low, high = float(knob.low), float(knob.high)
    # A whole number owns the half unit on either side of it, so that the ends are as likely as the rest.
    margin = 0.5 if knob.kind == "int" else 0.0
    if knob.log and low > 0:
        drawn = math.exp(random.uniform(math.log(low - margin), math.log(high + margin)))
    else:
        drawn = random.uniform(low - margin, high + margin)
    value = min(max(drawn, low), high)
    return round(value) if knob.kind == "int" else value
