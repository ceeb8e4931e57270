"""Did the load start before the server was warm, or before its queue was as long as it gets?"""

from __future__ import annotations

import math
import statistics

from tools.measure import latency
from tools.measure.dependence import certainties, mean_error, t_quantile
from tools.measure.doubts.doubt import Case, Doubt
from tools.measure.steady import steady_part

__all__ = ["warm_up"]

_LEAST_EFFECT = 1.2
"Ratio of the start's latency to the rest's (or its inverse) below which nobody need care."
_CONFIDENCE = 0.9997
"High, since the cut was chosen for its difference."
_LEAST_REQUESTS = 40
_LEAST_EFFECTIVE = 60.0
"Independent values' worth of the rest: in fewer, a queue's own swings look like a start."


def warm_up(case: Case) -> Doubt | None:
    """The start's TTFT differs from the steady part's by more than chance and by more than 20 %."""
    waits_s = [wait_s for record in case.series if (wait_s := latency.ttft_s(record)) is not None and wait_s > 0]
    if not case.even_load or len(waits_s) < _LEAST_REQUESTS:
        return None
    logs = [math.log(wait_s) for wait_s in waits_s]
    steady = steady_part(logs)
    start, rest = logs[: steady.drop], logs[steady.drop :]
    if not start:
        return None
    difference = statistics.fmean(start) - statistics.fmean(rest)
    # What the start's mean may stray by: as a mean of neighbours does, at most as one value does.
    error, spread = mean_error(rest), statistics.stdev(rest)
    if spread**2 < _LEAST_EFFECTIVE * error**2:
        return None
    stray = min(error * math.sqrt(len(rest) / len(start)), spread)
    if abs(difference) <= t_quantile((1 + _CONFIDENCE) / 2, 10.5) * math.hypot(error, stray):
        return None
    ratio = math.exp(difference)
    if max(ratio, 1 / ratio) < _LEAST_EFFECT:
        return None
    effective = certainties(rest, (0.95,))[0]
    enough = steady.settled and effective.interval is not None
    verdict = "the rest is long enough for a P95" if enough else "the rest is too short for a P95: load it for longer"
    return Doubt(
        "warm_up",
        False,
        f"the first {steady.drop} of {len(logs)} requests waited {ratio:.2g} times as long for their first token as "
        f"the rest: send more warm-up requests, or leave these out; {verdict}",
        {
            "drop_requests": steady.drop,
            "steady_requests": len(rest),
            "steady_effective_samples": effective.effective_samples,
            "ratio": ratio,
        },
    )
