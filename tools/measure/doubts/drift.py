"""Was the second half another measurement than the first? (Heat, a leak, a neighbour, a cache that filled.)"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tools.measure import latency
from tools.measure.dependence import certainties
from tools.measure.doubts.doubt import Case, Doubt
from tools.measure.records import RequestRecord

__all__ = ["drift"]

_LEAST_EFFECT = 1.1
_LEAST_REQUESTS = 40
_LEAST_EFFECTIVE = 30.0
"Of each half: in fewer, a queue's own swings look like a change."
_CONFIDENCE = 0.98
"Of each half's interval. Two that don't meet differ at a level well below 1 %, and three families are looked at."

_FAMILIES: dict[str, Callable[[RequestRecord], float | None]] = {
    "ttft": latency.ttft_s,
    "tpot": latency.tpot_s,
    "e2el": latency.e2el_s,
}


def drift(case: Case) -> Doubt | None:
    """The halves' medians have intervals that don't meet, dependence allowed for, and lie more than 10 % apart."""
    if not case.even_load or len(case.records) < _LEAST_REQUESTS:
        return None
    middle = len(case.records) // 2
    found: dict[str, tuple[float, float]] = {}
    for family, of in _FAMILIES.items():
        halves = [_values(half, of) for half in (case.records[:middle], case.records[middle:])]
        sure = [certainties(half, (0.5,), confidence=_CONFIDENCE)[0] for half in halves]
        first, second = (one.interval for one in sure)
        if min(one.effective_samples for one in sure) < _LEAST_EFFECTIVE or first is None or second is None:
            continue
        if first.high >= second.low and second.high >= first.low:
            continue
        before_ms, after_ms = (_median(half) * 1000 for half in halves)
        if max(before_ms, after_ms) > _LEAST_EFFECT * min(before_ms, after_ms):
            found[family] = (before_ms, after_ms)
    if not found:
        return None
    told = ", ".join(f"{family} from {before:.4g} to {after:.4g} ms" for family, (before, after) in found.items())
    return Doubt(
        "drift",
        False,
        f"the halves of this load differ beyond chance: median {told}. Its percentiles mix two states; find what "
        "changed (heat, another process, a growing queue), or load for longer and judge the later part",
        {
            f"{half}_half_median_{family}_ms": value
            for family, pair in found.items()
            for half, value in zip(("first", "second"), pair, strict=True)
        },
    )


def _values(records: Sequence[RequestRecord], of: Callable[[RequestRecord], float | None]) -> list[float]:
    return [value for record in records if (value := of(record)) is not None and math.isfinite(value)]


def _median(values: Sequence[float]) -> float:
    ascending = sorted(values)
    return (ascending[(len(ascending) - 1) // 2] + ascending[len(ascending) // 2]) / 2
