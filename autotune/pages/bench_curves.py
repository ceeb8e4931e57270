"""Pictures of one load's latencies: their distributions, and the time to first token as the load went on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from autotune.pages.chart import Chart
from autotune.pages.number import number
from autotune.pages.points import Point
from autotune.pages.samples import FAMILY_NAMES, samples_of, ttft_ms
from autotune.pages.scale import Scale
from tools.measure.dependence import certainties
from tools.measure.measurement import Measurement
from tools.measure.records import Outcome, RequestRecord

__all__ = ["OUTCOMES", "distribution", "ttft_over_time"]

OUTCOMES: dict[Outcome, tuple[str, str]] = {
    "ok": ("green", "answered"),
    "timed_out": ("violet", "timed out"),
    "failed": ("rust", "failed"),
}
"""Outcome to its colour and its name in a legend."""

_STEPS = 400
_BAND_SHARES = (0.01, 0.02, 0.05, *(index / 20 for index in range(2, 19)), 0.92, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)
_MOST_DOTS = 1500


def distribution(measurement: Measurement, family: str, slo: Mapping[str, float]) -> str:
    """The share of samples up to each latency, with the 95 % interval of its percentiles and the promised bounds.

    A failed request's ttft and e2el are longer than any: where some failed, the curve ends below 1. Empty where there
    is no sample to draw.
    """
    samples = samples_of(measurement, family)
    if not samples.finite:
        return ""
    bounds = {name: bound for name, bound in slo.items() if name.endswith(f"_{family}_ms")}
    x = Scale.logarithmic([*samples.finite, *bounds.values()])
    title = f"Distribution of the {FAMILY_NAMES[family]} of {len(samples.values_ms)} samples"
    chart = Chart(title, x, Scale(0.0, 1.0), (f"{family}, ms", "share of samples"), width=480, height=280)
    lower, upper = [], []
    sure = certainties(samples.values_ms, _BAND_SHARES, sizes=samples.sizes)
    for share, certainty in zip(_BAND_SHARES, sure, strict=True):
        if certainty.interval is not None:
            lower.append((certainty.interval.low, share))
            upper.append((certainty.interval.high, share))
    chart.band(lower, upper, "blue", key="95 % interval")
    chart.line(_cumulative(samples.ascending), "blue", key="share of samples")
    for row, (name, bound) in enumerate(sorted(bounds.items())):
        statistic = name.split("_", 1)[0]
        chart.mark(bound, f"promise: {statistic} {number(bound)}", row=row)
    return chart.svg()


def ttft_over_time(measurement: Measurement, bound_ms: float | None, warm_up_s: float | None) -> str:
    """Every request's time to first token at the moment it was due, and their running median.

    Thinned evenly where there are more than can be told apart. `warm_up_s` is where the steady part begins.
    """
    records = sorted(measurement.records, key=lambda record: record.scheduled_s)
    told = [record for record in records if math.isfinite(ttft_ms(record))]
    if not told:
        return ""
    span = Scale.span([record.scheduled_s for record in records])
    y = Scale.logarithmic([ttft_ms(record) for record in told] + ([bound_ms] if bound_ms else []))
    names = ("seconds into the load, when the request was due", "ttft, ms")
    chart = Chart("Time to first token of each request over the load", span, y, names)
    every = math.ceil(len(records) / _MOST_DOTS)
    for outcome, (ink, name) in OUTCOMES.items():
        of_it = [record for record in records[::every] if record.outcome == outcome]
        chart.dots([_dot(record, y) for record in of_it], ink, key=name if of_it else "", radius=2.4)
    chart.line(_running_median(told), "ink", key="running median")
    if bound_ms is not None:
        chart.bound(bound_ms, f"promise: {number(bound_ms)} ms")
    if warm_up_s is not None:
        chart.mark(warm_up_s, "steady from here", "ochre")
    return chart.svg()


def _cumulative(ascending: Sequence[float]) -> list[Point]:
    """At most _STEPS points (sample, share of samples up to it); a line is drawn through the finite ones."""
    n = len(ascending)
    ranks = sorted({math.ceil(n * index / _STEPS) for index in range(1, _STEPS + 1)} | {1, n})
    return [(ascending[rank - 1], rank / n) for rank in ranks]


def _running_median(records: Sequence[RequestRecord]) -> list[Point]:
    """Over windows of a twentieth of the requests, at least 5, each half over the one before."""
    size = max(5, len(records) // 20)
    found = []
    for start in range(0, max(len(records) - size + 1, 1), max(size // 2, 1)):
        window = records[start : start + size]
        found.append((median(r.scheduled_s for r in window), median(ttft_ms(r) for r in window)))
    return found


def _dot(record: RequestRecord, y: Scale) -> tuple[float, float, str]:
    """A failed request, which has no such time, stands at the top."""
    found = ttft_ms(record)
    told = f"ttft {number(found)} ms" if math.isfinite(found) else record.error
    return record.scheduled_s, found if math.isfinite(found) else y.high, f"request {record.index}: {told}"
