"""Was the second half another measurement than the first? (Heat, a leak, a neighbour, a cache that filled.)"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tools.measure import latency
from tools.measure.dependence import mean_error, t_quantile
from tools.measure.doubts.doubt import Case, Doubt
from tools.measure.records import RequestRecord

__all__ = ["drift"]

_LEAST_EFFECT = 1.1
_LEAST_REQUESTS = 40
_LEAST_EFFECTIVE = 40.0
"Independent values' worth of each half: in fewer, a queue's own swings look like a change."
_CONFIDENCE = 0.9995
"High, since three families are looked at, and an error that is itself estimated."

_FAMILIES: dict[str, Callable[[RequestRecord], float | None]] = {
    "ttft": latency.ttft_s,
    "tpot": latency.tpot_s,
    "e2el": latency.e2el_s,
}


def drift(case: Case) -> Doubt | None:
    """The halves' geometric means differ beyond chance, dependence allowed for, and by more than 10 %."""
    if not case.even_load or len(case.series) < _LEAST_REQUESTS:
        return None
    middle = len(case.series) // 2
    found: dict[str, tuple[float, float]] = {}
    for family, of in _FAMILIES.items():
        halves = [_logs(half, of) for half in (case.series[:middle], case.series[middle:])]
        if min(len(half) for half in halves) < _LEAST_REQUESTS // 2:
            continue
        (before, before_error), (after, after_error) = (_mean(half) for half in halves)
        error = math.hypot(before_error, after_error)
        difference = abs(after - before)
        if difference > max(t_quantile((1 + _CONFIDENCE) / 2, 10.5) * error, math.log(_LEAST_EFFECT)):
            found[family] = (math.exp(before) * 1000, math.exp(after) * 1000)
    if not found:
        return None
    told = ", ".join(f"{family} from {before:.4g} to {after:.4g} ms" for family, (before, after) in found.items())
    return Doubt(
        "drift",
        False,
        f"the halves of this load differ beyond chance: typical {told}. Its percentiles mix two states; find what "
        "changed (heat, another process, a growing queue), or load for longer and judge the later part",
        {
            f"{half}_half_typical_{family}_ms": value
            for family, pair in found.items()
            for half, value in zip(("first", "second"), pair, strict=True)
        },
    )


def _logs(records: Sequence[RequestRecord], of: Callable[[RequestRecord], float | None]) -> list[float]:
    return [math.log(value) for record in records if (value := of(record)) is not None and value > 0]


def _mean(logs: Sequence[float]) -> tuple[float, float]:
    """(mean, its standard error); an infinite error where the half is worth too few independent values.

    The error is that of what a straight line leaves: a drift within the half is what is looked for, not noise.
    """
    values = np.asarray(logs)
    places = np.arange(values.size) - (values.size - 1) / 2
    rest = values - values.mean() - places * float(places @ values) / float(places @ places)
    error = mean_error(rest.tolist())
    enough = float(rest.var()) >= _LEAST_EFFECTIVE * error**2
    return float(values.mean()), error if enough else math.inf
