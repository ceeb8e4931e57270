"""Failures: how many replicas to run so that enough are up, when each one fails now and then.

A replica is up for a mean time MTTF and then down for a mean repair time, start included, whatever the others do:
independence is the assumption. What breaks it (a zone, a switch, a bad release) is what `zones` is for.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["FailureModel", "Headroom"]

_A_CENTURY = 876_600.0
"""Hours beyond which the independence of failures isn't worth a number."""


@dataclass(frozen=True)
class FailureModel:
    """Times in seconds."""

    mttf_s: float
    repair_s: float
    "From a failure until the replica takes requests again: noticing, rescheduling and the cold start."
    zones: int = 1
    "Failure domains the replicas are spread over evenly; with 2 or more, the loss of any one must be borne."
    target: float = 0.999
    "Share of time in which at least the needed replicas shall be up."

    def __post_init__(self) -> None:
        if self.mttf_s <= 0 or self.repair_s < 0 or self.zones < 1 or not 0 < self.target < 1:
            raise ValueError(f"expected times above 0, zones from 1 and a target between 0 and 1, found {self}")

    @property
    def availability(self) -> float:
        """Share of time that one replica is up: MTTF / (MTTF + repair)."""
        return self.mttf_s / (self.mttf_s + self.repair_s)

    def share_enough(self, replicas: int, needed: int) -> float:
        """Share of time in which at least `needed` of `replicas` are up: a binomial tail.

        Exact, summed from the largest term downwards in logarithms, so that thousands of replicas don't underflow.
        """
        if needed <= 0:
            return 1.0
        if needed > replicas:
            return 0.0
        up, down = math.log(self.availability), math.log1p(-self.availability) if self.repair_s else -math.inf
        if down == -math.inf:
            return 1.0
        total = math.lgamma(replicas + 1)
        terms = [
            math.exp(total - math.lgamma(k + 1) - math.lgamma(replicas - k + 1) + k * up + (replicas - k) * down)
            for k in range(needed, replicas + 1)
        ]
        return min(math.fsum(terms), 1.0)

    def headroom(self, needed: int) -> Headroom:
        """The fewest replicas of which `needed` are up often enough, even without any one zone."""
        low, replicas = needed - 1, needed
        while not self._enough(replicas, needed):
            low, replicas = replicas, replicas + max(replicas - low, 1) * 2
        while replicas - low > 1:
            middle = (low + replicas) // 2
            low, replicas = (low, middle) if self._enough(middle, needed) else (middle, replicas)
        return Headroom(
            needed=needed,
            replicas=replicas,
            share_enough=self.share_enough(self._without_a_zone(replicas), needed),
            mean_down=replicas * (1 - self.availability),
            hours_to_short=self.time_to_down_s(replicas, replicas - needed + 1) / 3600,
            model=self,
        )

    def time_to_down_s(self, replicas: int, down: int) -> float:
        """Mean time until `down` of `replicas` are down at once, all being up at first; infinite where nothing fails.

        A birth-death chain: with i down, the next fails at rate (n - i) / MTTF and one comes back at rate i / repair,
        so the mean first passage from i to i + 1 is h(i) = (1 + repaired(i) * h(i - 1)) / fails(i), and the answer is
        the sum of h over 0 .. down - 1.
        """
        if not 1 <= down <= replicas:
            return math.inf
        total = passage = 0.0
        for i in range(down):
            fails = (replicas - i) / self.mttf_s
            repaired = i / self.repair_s if self.repair_s else math.inf
            passage = (1 + repaired * passage) / fails if i else 1 / fails
            total += passage
            if not math.isfinite(total):
                return math.inf
        return total

    def _enough(self, replicas: int, needed: int) -> bool:
        return self.share_enough(self._without_a_zone(replicas), needed) >= self.target

    def _without_a_zone(self, replicas: int) -> int:
        return replicas if self.zones == 1 else replicas - math.ceil(replicas / self.zones)


@dataclass(frozen=True)
class Headroom:
    """Spare replicas and what they buy."""

    needed: int
    replicas: int
    share_enough: float
    "Share of time in which `needed` are up; with zones, while one zone is lost."
    mean_down: float
    hours_to_short: float
    "Mean time from all up until fewer than `needed` are: failures one by one, no zone lost."
    model: FailureModel

    @property
    def spare(self) -> int:
        return self.replicas - self.needed

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        data.pop("model")
        short = self.hours_to_short if self.hours_to_short < _A_CENTURY else None
        return {**data, "hours_to_short": short, "spare": self.spare, **asdict(self.model)}
