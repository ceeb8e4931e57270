"""Was more offered than the server can serve, so that its queue grew for as long as the load went on?"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from tools.measure import latency
from tools.measure.dependence import t_quantile
from tools.measure.doubts.doubt import Case, Doubt

__all__ = ["over_saturated"]

_PARTS = 8
"Stretches whose means the line is drawn through: neighbours in a queue depend on each other, long stretches hardly."
_LEAST_REQUESTS = 40
_LEAST_GROWTH = 0.6
"Of the mean level, from the first request to the last: a queue that grows from nothing has 2."
_CONFIDENCE = 0.98


def over_saturated(case: Case) -> Doubt | None:
    """Requests in flight and time to first token both grew all along, by a t interval, by 60 % of their mean.

    Silent for bursts and closed loops, which can't offer more than they get, and before 40 requests were answered that
    came after the first ones had had time to end.
    """
    if not case.even_load or (case.workload is not None and case.workload.spec.arrivals.kind == "closed"):
        return None
    if len(case.ok) < _LEAST_REQUESTS:
        return None
    # Until the first answers end, requests in flight grow on every server.
    first = case.ok[: max(len(case.ok) // 10, 8)]
    usual_s = statistics.median(record.end_s - record.scheduled_s for record in first)
    filled_s = case.records[0].scheduled_s + usual_s
    waits = [
        (record.scheduled_s, wait_s)
        for record in case.series
        if record.scheduled_s >= filled_s and (wait_s := latency.ttft_s(record)) is not None
    ]
    if len(waits) < _LEAST_REQUESTS:
        return None
    moments_s = [moment_s for moment_s, _ in waits]
    due_s = sorted(record.scheduled_s for record in case.records)
    ends_s = sorted(record.end_s for record in case.records)
    in_flight = [bisect_left(due_s, moment_s) - bisect_left(ends_s, moment_s) for moment_s in moments_s]
    growths = [_least_growth(moments_s, series) for series in (in_flight, [wait_s for _, wait_s in waits])]
    if min(growths) < _LEAST_GROWTH:
        return None
    return Doubt(
        "over_saturated",
        False,
        "requests in flight and time to first token grew from the first request to the last: more is offered than is "
        "served, and every percentile depends on how long the load lasts. Offer less, or read the throughput alone",
        {
            "in_flight_growth": growths[0],
            "ttft_growth": growths[1],
            "in_flight_at_end": float(in_flight[-1]),
        },
    )


def _least_growth(moments_s: Sequence[float], values: Sequence[float]) -> float:
    """The lower end of the interval of a line's rise from first to last, over the mean of `values`."""
    x = np.array([part.mean() for part in np.array_split(np.asarray(moments_s, dtype=float), _PARTS)])
    y = np.array([part.mean() for part in np.array_split(np.asarray(values, dtype=float), _PARTS)])
    spread, mean = float(((x - x.mean()) ** 2).sum()), float(y.mean())
    if spread == 0 or mean <= 0:
        return 0.0
    slope = float(((x - x.mean()) * y).sum()) / spread
    rest = y - mean - slope * (x - x.mean())
    error = float(np.sqrt((rest @ rest) / (_PARTS - 2) / spread))
    least = slope - t_quantile((1 + _CONFIDENCE) / 2, _PARTS - 2) * error
    return least * (moments_s[-1] - moments_s[0]) / mean
