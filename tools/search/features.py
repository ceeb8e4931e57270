"""Features: configs as points whose distances mean something: sizes by their logarithm, words apart, `auto` aside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tools.search.space import SearchSpace
from tools.targets.knobs import Knob, Value

__all__ = ["Apart", "Features", "Points"]

_WIDE = 8.0
"Ratio of highest to lowest from which a number is a size, and its logarithm counts."

_APART = 0.5
"Distance between a knob at a number and the same knob at `auto`, or out of play."


@dataclass(frozen=True)
class Points:
    """Configs as arrays, one row each."""

    place: NDArray[np.float64]
    "[configs, knobs]: 0 to 1 along an ordered knob; the number of the choice for words."
    group: NDArray[np.int64]
    "[configs, knobs]: 0 an ordinary value, 1 `auto`, 2 out of play. Points of different groups lie apart."

    def __len__(self) -> int:
        return len(self.place)

    def only(self, rows: NDArray[np.intp]) -> Points:
        """The points in `rows`."""
        return Points(self.place[rows], self.group[rows])


@dataclass(frozen=True)
class Apart:
    """Distances between points along each knob: 0 to 1, more where the groups differ.

    Knobs have few values, so few distances differ: each is held once, and what is made of it is worked out once.
    """

    values: tuple[NDArray[np.float64], ...]
    "Per knob, the distances that can occur."
    which: NDArray[np.intp]
    "[knobs, here, there]: place of the distance in its knob's `values`."

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, int]:
        """Points here, and there."""
        return self.which.shape[1], self.which.shape[2]

    def to(self, columns: NDArray[np.intp]) -> Apart:
        """The distances to some of the points there."""
        return Apart(self.values, self.which[:, :, columns])

    def among(self, rows: NDArray[np.intp]) -> Apart:
        """The distances of some points to one another, where here and there are the same points."""
        return Apart(self.values, self.which[:, rows[:, None], rows[None, :]])


@dataclass(frozen=True)
class Features:
    """How the configs of a space become points."""

    space: SearchSpace

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The searched knobs that can take more than one value."""
        return tuple(name for name in self.space.distributions if len(self.space.levels(name)) > 1)

    def points(self, patches: Sequence[Mapping[str, Value]]) -> Points:
        """One point per patch."""
        place = np.zeros((len(patches), len(self.names)))
        group = np.zeros(place.shape, dtype=np.int64)
        for column, name in enumerate(self.names):
            for row, value in enumerate(patch.get(name, self.space.baseline.values[name]) for patch in patches):
                place[row, column], group[row, column] = self._place(name, value)
        if any(knob.only_when is not None for knob in self.space.knobs):
            for row, patch in enumerate(patches):
                active = self.space.active(patch)
                for column, name in enumerate(self.names):
                    if name not in active:
                        place[row, column], group[row, column] = self._aside(name), 2
        return Points(place, group)

    def _place(self, name: str, value: Value) -> tuple[float, int]:
        """Place and group of a value that is in play."""
        known, key = self._known, (name, type(value), value)
        if key not in known:
            knob = self.space.reach(name)
            chosen_by_engine = knob.auto is not None and type(value) is type(knob.auto) and value == knob.auto
            known[key] = (self._aside(name), 1) if chosen_by_engine else (_Scale.of(knob)(value), 0)
        return known[key]

    def _aside(self, name: str) -> float:
        return 0.0 if _is_word(self.space.reach(name)) else 0.5

    @cached_property
    def _known(self) -> dict[tuple[str, type, Value], tuple[float, int]]:
        return {}

    def apart(self, here: Points, there: Points) -> Apart:
        """The distances from every point here to every point there."""
        values, which = [], np.empty((len(self.names), len(here), len(there)), dtype=np.intp)
        for column, name in enumerate(self.names):
            both = np.stack(
                [
                    np.concatenate([here.place[:, column], there.place[:, column]]),
                    np.concatenate([here.group[:, column], there.group[:, column]]),
                ]
            )
            spots, rows = np.unique(both, axis=1, return_inverse=True)
            distance = np.abs(spots[0][:, None] - spots[0][None, :])
            if _is_word(self.space.reach(name)):
                distance = (distance > 0).astype(float)
            distance += _APART * (spots[1][:, None] != spots[1][None, :])
            values.append(distance.ravel())
            which[column] = rows[: len(here), None] * spots.shape[1] + rows[None, len(here) :]
        return Apart(tuple(values), which)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where the values of one knob lie between 0 and 1."""

    choices: tuple[Value, ...]
    "Of a knob of words; empty for numbers."
    low: float
    high: float
    log: bool

    def __call__(self, value: Value) -> float:
        if self.choices:
            same = (type(choice) is type(value) and choice == value for choice in self.choices)
            return float(next((number for number, hit in enumerate(same) if hit), len(self.choices)))
        number = float(value)
        return (self._bent(number) - self._bent(self.low)) / (self._bent(self.high) - self._bent(self.low))

    def _bent(self, number: float) -> float:
        return math.copysign(math.log1p(abs(number)), number) if self.log else number

    @classmethod
    def of(cls, knob: Knob) -> _Scale:
        if _is_word(knob):
            return cls((False, True) if knob.kind == "bool" else knob.choices, 0.0, 1.0, False)
        if knob.kind == "choice":
            numbers = [float(choice) for choice in knob.choices]
            low, high = min(numbers), max(numbers)
        else:
            assert knob.low is not None and knob.high is not None
            low, high = float(knob.low), float(knob.high)
        return cls((), low, high, knob.log or (low >= 0 and high >= _WIDE * max(low, 1.0)))


def _is_word(knob: Knob) -> bool:
    """Whether the order of its values means nothing."""
    return knob.kind == "bool" or (
        knob.kind == "choice" and any(isinstance(choice, bool | str) for choice in knob.choices)
    )
