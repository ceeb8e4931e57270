"""Against: one contender held against the first in one metric, round by round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from autotune.compare.metric import CompareMetric
from tools.measure.replicates import Replicated, across

__all__ = ["Against", "Standing", "against", "standing"]


@dataclass(frozen=True, slots=True)
class Standing:
    """One contender's metric over the rounds that count."""

    values: tuple[float, ...]
    "A trial each, in the order of their rounds."
    mean: Replicated

    @property
    def median(self) -> float:
        return median(self.values)

    def to_json(self) -> dict[str, Any]:
        return {"values": list(self.values), "median": self.median, **asdict(self.mean)}


@dataclass(frozen=True, slots=True)
class Against:
    """The ratio to the first contender: the geometric mean of the rounds' own ratios, with its 95 % interval (Student's
    t on their logarithms). The machine's slow and fast hours, and a round's requests, cancel in it."""

    ratio: float
    low: float | None
    "None for one round."
    high: float | None
    rounds: int

    @property
    def resolved(self) -> bool:
        """Whether the interval leaves no room for no difference."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    def better(self, metric: CompareMetric) -> bool | None:
        """Whether it is better than the first; None where that isn't resolved."""
        return (self.ratio < 1) is metric.lower_is_better if self.resolved else None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "resolved": self.resolved}


def standing(by_round: Mapping[int, float | None]) -> Standing | None:
    """What one contender's values, by round, say together; None of none."""
    values = tuple(value for _, value in sorted(by_round.items()) if value is not None)
    return Standing(values, across([{_OF: value} for value in values])[_OF]) if values else None


def against(first: Mapping[int, float | None], other: Mapping[int, float | None]) -> Against | None:
    """`other` over `first`, of the rounds that both have.

    None without such a round, and where a value is zero or isn't told: a latency is untold where it falls on a request
    that failed, and a comparison that left that round out would favour who failed.
    """
    ratios = []
    for number in sorted(first.keys() & other.keys()):
        before, after = first[number], other[number]
        if before is None or after is None or min(before, after) <= 0:
            return None
        ratios.append({_OF: after / before})
    if not ratios:
        return None
    found = across(ratios)[_OF]
    return Against(found.mean, found.low, found.high, found.trials)


_OF = "value"
"A name that `across` takes for a positive quantity, whose mean is geometric."
