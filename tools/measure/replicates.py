"""Replicates: what several trials say together. The trial is the unit: requests of one launch share its luck."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tools.measure.dependence import t_quantile

__all__ = ["Replicated", "across"]

_COUNTS = ("completed", "failed", "timed_out")
_SHARES = ("slo_attainment", "stutter_share", "prefix_hit_rate")


@dataclass(frozen=True, slots=True)
class Replicated:
    """One metric over all trials."""

    mean: float
    "Geometric for latencies and rates; arithmetic for counts and shares, and where a value is 0."
    low: float | None
    "Ends of the mean's 95 % interval between trials (Student's t, on the scale of the mean); None for one trial."
    high: float | None
    trials: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def across(summaries: Sequence[Mapping[str, float]]) -> dict[str, Replicated]:
    """Every metric that all trials can tell."""
    if not summaries:
        return {}
    names = [name for name in summaries[0] if all(name in summary for summary in summaries)]
    return {name: _replicated(name, [summary[name] for summary in summaries]) for name in names}


def _replicated(name: str, values: Sequence[float]) -> Replicated:
    if min(values) > 0 and name not in (*_COUNTS, *_SHARES):
        mean, half = _mean([math.log(value) for value in values])
        low, high = (None, None) if half is None else (math.exp(mean - half), math.exp(mean + half))
        return Replicated(math.exp(mean), low, high, len(values))
    mean, half = _mean(values)
    low, high = (None, None) if half is None else (max(mean - half, 0.0), mean + half)
    if high is not None and name in _SHARES:
        high = min(high, 1.0)
    return Replicated(mean, low, high, len(values))


def _mean(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and how far its 95 % interval reaches."""
    count = len(values)
    mean = statistics.fmean(values)
    if count < 2:
        return mean, None
    return mean, t_quantile(0.975, count - 1) * statistics.stdev(values) / math.sqrt(count)
