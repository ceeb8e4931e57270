"""SearchSpace: a KnobSpace in the optimiser's terms, around the baseline that a patch is relative to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from tools.targets.knobs import Config, Knob, KnobError, KnobSpace, Value

__all__ = ["SearchSpace"]

_SIGNIFICANT_BITS = 3


@dataclass(frozen=True)
class SearchSpace:
    """The tunable knobs that a search may move. Every other knob stays at its value in `baseline`."""

    knobs: KnobSpace
    baseline: Config

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        """One Optuna distribution per tunable knob, by name.

        Raises:
            KnobError: a number without both bounds, which can't be searched.
        """
        return {knob.name: _distribution(knob) for knob in self.knobs if knob.tunable}

    @property
    def size(self) -> float:
        """How many different configs the space holds; infinite where a knob is a float."""
        return math.prod(len(grid) if (grid := _grid(self.knobs[name])) else math.inf for name in self.distributions)

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
        """`values` without what the baseline says already, by name."""
        return {name: value for name, value in sorted(values.items()) if not self._same(name, value)}

    def every_patch(self) -> Iterator[dict[str, Value]]:
        """All patches of a finite space, the baseline's own (empty) among them if its values lie on the grid."""
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
