"""SearchSpace: a KnobSpace as a search sees it, around the baseline that a patch is relative to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
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

    A baseline may stand outside what its knobs can take, where their ranges were narrowed after it was chosen. Its
    own values, and no others out there, then belong to the space.
    """

    knobs: KnobSpace
    baseline: Config

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        """One Optuna distribution per tunable knob, by name; a knob comes after the one its condition names.

        Raises:
            KnobError: a number without both bounds, which can't be searched.
        """
        return {name: _distribution(self.reach(name)) for name in self._in_order}

    def reach(self, name: str) -> Knob:
        """The knob called `name`, widened to the baseline's value where that lies outside."""
        return self._widened.get(name, self.knobs[name])

    @cached_property
    def _widened(self) -> dict[str, Knob]:
        """The searched knobs that the baseline stands outside of, by name, widened to its value."""
        names = [name for name in self._in_order if name in self.baseline.values]
        wide = {name: _widened(self.knobs[name], self.baseline.values[name]) for name in names}
        return {name: knob for name, knob in wide.items() if knob is not None}

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
        return math.prod(len(grid) if (grid := self._grid(name)) else math.inf for name in self.distributions)

    def levels(self, name: str) -> tuple[Value, ...]:
        """The values at which a coarse search looks at a knob: all of few, else numbers an octave apart.

        The baseline's own value is among them.
        """
        standing = self.baseline.values.get(name)
        levels = _levels(self.knobs[name], standing)
        return (*levels, standing) if standing is not None and name in self._widened else levels

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
            return {name: self._checked(name, values[name]) for name in self.distributions}
        except KnobError:
            return None

    def _checked(self, name: str, value: Value) -> Value:
        return (self.reach(name) if self._same(name, value) else self.knobs[name]).check(value)

    def patch(self, point: Mapping[str, Value]) -> dict[str, Value]:
        """What `point` changes in the baseline, whole numbers rounded to three significant bits.

        So 3871 becomes 3584: near-equal configs are measured once, and a commit reads as if a person had chosen. A
        number between a knob's range and a baseline outside it becomes the nearer of the two.
        """
        return self.reduce({name: self._rounded(name, value) for name, value in point.items()})

    def _rounded(self, name: str, value: Value) -> Value:
        knob = self.knobs[name]
        if name not in self._widened or knob.kind == "choice" or isinstance(value, bool | str):
            return _round(knob, value)
        standing = self.baseline.values[name]
        assert knob.low is not None and knob.high is not None and not isinstance(standing, bool | str)
        edge = min(max(value, knob.low), knob.high)
        return standing if abs(value - standing) < abs(value - edge) else _round(knob, edge)

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
        return self.patch({name: self._drawn(name, random) for name in self.distributions})

    def _drawn(self, name: str, random: Random) -> Value:
        """A baseline that stands outside is drawn as often as one level is."""
        if name in self._widened and random.random() * len(self.levels(name)) < 1:
            return self.baseline.values[name]
        return _draw(self.knobs[name], random)

    def every_patch(self) -> Iterator[dict[str, Value]]:
        """All patches of a finite space, the baseline's own (empty) among them if its values lie on the grid.

        Where knobs depend on others a patch can come more than once.
        """
        names = list(self.distributions)
        for values in itertools.product(*(self._grid(name) for name in names)):
            yield self.reduce(dict(zip(names, values, strict=True)))

    def _grid(self, name: str) -> tuple[Value, ...]:
        grid = _grid(self.knobs[name])
        return (*grid, self.baseline.values[name]) if grid and name in self._widened else grid

    def _same(self, name: str, value: Value) -> bool:
        standing = self.baseline.values.get(name)
        return type(standing) is type(value) and standing == value


def _widened(knob: Knob, standing: Value) -> Knob | None:
    """The knob with `standing` among its values; None where it is one already, or where the type is wrong."""
    if knob.kind == "choice":
        same = any(type(choice) is type(standing) and choice == standing for choice in knob.choices)
        return None if same else replace(knob, choices=(*knob.choices, standing))
    fits = type(standing) is int or (knob.kind == "float" and type(standing) is float and math.isfinite(standing))
    if knob.kind == "bool" or not fits or isinstance(standing, str) or knob.low is None or knob.high is None:
        return None
    low, high = min(knob.low, standing), max(knob.high, standing)
    return None if (low, high) == (knob.low, knob.high) else replace(knob, low=low, high=high)


def _distribution(knob: Knob) -> BaseDistribution:
    """The knob as Optuna has it.

    Raises:
        KnobError: a number without both bounds.
    """
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
    """`value`, of a whole number three significant bits within the knob's range."""
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
        whole = int(_round(knob, min(value, int(knob.high))))
        values.append(whole)
        value = max(value, whole)
    return tuple(dict.fromkeys(values))


def _levels(knob: Knob, standing: Value | None) -> tuple[Value, ...]:
    """All of few values, else numbers an octave apart, and `standing` where the knob can take it."""
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
    """A value, each as likely as any other; along the logarithm where the knob is searched so."""
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
