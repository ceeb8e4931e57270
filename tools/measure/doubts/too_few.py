"""Are there requests enough for the percentiles that the promise names?"""

from __future__ import annotations

import math

from tools.measure.doubts.doubt import Case, Doubt
from tools.measure.summary import percentile_certainties

__all__ = ["too_few"]


def too_few(case: Case) -> Doubt | None:
    """A promised percentile without an interval for want of samples; says how many requests would do."""
    if case.slo is None or not case.records:
        return None
    known = percentile_certainties(case.measurement)
    needed: dict[str, int] = {}
    for metric in case.slo.bounds():
        one = known.get(metric)
        if one is not None and one.interval is None and one.samples < one.needed_samples:
            needed[metric] = math.ceil(len(case.records) * one.needed_samples / one.samples)
    if not needed:
        return None
    most = max(needed.values())
    return Doubt(
        "too_few",
        False,
        f"{len(case.records)} requests, as much as they depend on each other, can't tell {', '.join(needed)}: about "
        f"{most} would do",
        {f"needed_requests_{metric}": count for metric, count in needed.items()},
    )
