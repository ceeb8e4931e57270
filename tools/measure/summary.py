"""Summary: a measurement's flat numbers, under the names that vLLM and SGLang use.

Latency families (`latency.py` has the formulas), each as mean, median, std, p50, p90, p95, p99, in milliseconds:
`ttft` `tpot` `itl` `e2el`, then `ttft_from_send` `e2el_from_send` (from the send, not from the moment a request was
due) and `itl_tok` (per token rather than per chunk).

Who counts: completed requests, and timed-out ones with the time they had waited. A failed request has no latency; it
takes part in `ttft` and `e2el` percentiles as longer than any other, so that refusing requests never makes one look
better, and is left out of mean and std, which tell of those that were answered. What can't be told is absent, never 0:
a percentile that falls on a failed request, and a p99 of fewer than 368 samples, which has no 95 % interval.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

from tools.measure import latency
from tools.measure.intervals import Interval, percentile, percentile_interval, wilson_interval
from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord
from tools.measure.slo import Slo

__all__ = ["METRICS", "MIN_SAMPLES_P99", "lower_is_better", "summarise", "summary_intervals"]

MIN_SAMPLES_P99 = 368
"""0.99**n <= 0.025: the fewest samples of which a P99 has a two-sided 95 % interval."""

_PERCENTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}
_STATISTICS = ("mean", "median", "std", *_PERCENTILES)

_PER_REQUEST: dict[str, Callable[[RequestRecord], float | None]] = {
    "ttft": latency.ttft_s,
    "e2el": latency.e2el_s,
    "ttft_from_send": latency.ttft_from_send_s,
    "e2el_from_send": latency.e2el_from_send_s,
}
_FAMILIES = ("ttft", "tpot", "itl", "e2el", "ttft_from_send", "e2el_from_send", "itl_tok")

_HIGHER_IS_BETTER = (
    "request_throughput",
    "output_throughput",
    "total_token_throughput",
    "request_goodput",
    "slo_attainment",
    "completed",
    "prefix_hit_rate",
)
_LOWER_IS_BETTER = (
    "failed",
    "timed_out",
    "duration",
    "max_itl_ms",
    "tokens_per_chunk_mean",
)

METRICS: tuple[str, ...] = (
    *(f"{statistic}_{family}_ms" for family in _FAMILIES for statistic in _STATISTICS),
    *_HIGHER_IS_BETTER,
    *_LOWER_IS_BETTER,
)
"""Every name that a summary may hold."""


def lower_is_better(metric: str) -> bool:
    """Whether less of `metric` is an improvement.

    Raises:
        ValueError: not one of METRICS.
    """
    if metric not in METRICS:
        raise ValueError(f"expected one of METRICS, found {metric!r}")
    return metric not in _HIGHER_IS_BETTER


def summarise(measurement: Measurement, slo: Slo | None = None) -> dict[str, float]:
    """The metrics of `measurement`, in the order of METRICS; those that it can't tell are absent.

    `request_goodput` (good requests per second of the window) and `slo_attainment` (good / offered) need an `slo` with
    bounds. Throughputs count completed requests alone. `duration` is in seconds.
    """
    found: dict[str, float] = {}
    for family in _FAMILIES:
        found |= _statistics(family, _samples_ms(measurement, family))
    ok = [record for record in measurement.records if record.outcome == "ok"]
    found |= {
        "completed": measurement.completed,
        "failed": measurement.failed,
        "timed_out": measurement.timed_out,
        "duration": measurement.window_s,
    }
    output_tokens = sum(record.output_tokens or 0 for record in ok)
    prompt_tokens = sum(record.prompt_tokens or 0 for record in ok)
    if measurement.window_s > 0:
        found["request_throughput"] = len(ok) / measurement.window_s
        found["output_throughput"] = output_tokens / measurement.window_s
        found["total_token_throughput"] = (output_tokens + prompt_tokens) / measurement.window_s
    if slo is not None and slo.bounds() and measurement.offered:
        good = _good(measurement, slo)
        found["slo_attainment"] = good / measurement.offered
        if measurement.window_s > 0:
            found["request_goodput"] = good / measurement.window_s
    queries, hits = measurement.counted("prefix_queries_tokens"), measurement.counted("prefix_hit_tokens")
    if queries and hits is not None:
        found["prefix_hit_rate"] = hits / queries
    gaps_ms = _samples_ms(measurement, "itl")
    if gaps_ms:
        found["max_itl_ms"] = gaps_ms[-1]
    chunks = sum(len(record.token_times_s) for record in ok)
    if chunks:
        found["tokens_per_chunk_mean"] = output_tokens / chunks
    return {metric: float(found[metric]) for metric in METRICS if metric in found}


def summary_intervals(measurement: Measurement, slo: Slo | None = None) -> dict[str, Interval]:
    """95 % intervals of the percentiles (exact, from order statistics) and of `slo_attainment` (Wilson).

    They tell how well *this* load pins the number down, requests taken as independent; how much launches differ, only
    further trials tell. A metric whose sample is too small for an interval is absent.
    """
    found: dict[str, Interval] = {}
    for family in _FAMILIES:
        samples = _samples_ms(measurement, family)
        for name, share in _PERCENTILES.items():
            interval = percentile_interval(samples, share)
            if interval is not None:
                found[f"{name}_{family}_ms"] = interval
    if slo is not None and slo.bounds():
        attained = wilson_interval(_good(measurement, slo), measurement.offered)
        if attained is not None:
            found["slo_attainment"] = attained
    return found


def _statistics(family: str, ascending: list[float]) -> dict[str, float]:
    found = {name: percentile(ascending, share) for name, share in _PERCENTILES.items()}
    found["median"] = found["p50"]
    if len(ascending) < MIN_SAMPLES_P99:
        found["p99"] = None
    answered = [sample for sample in ascending if math.isfinite(sample)]
    if answered:
        found["mean"] = statistics.fmean(answered)
        found["std"] = statistics.pstdev(answered)  # of the sample itself, as numpy's default and vLLM have it
    return {f"{name}_{family}_ms": value for name, value in found.items() if value is not None}


def _samples_ms(measurement: Measurement, family: str) -> list[float]:
    """All samples of `family` in ascending order, in milliseconds; a failed request's latency is infinite."""
    samples_s: list[float] = []
    for record in measurement.records:
        if family in _PER_REQUEST:
            value = _PER_REQUEST[family](record)
            samples_s.append(math.inf if value is None else value)
        elif family == "tpot":
            value = latency.tpot_s(record)
            samples_s += [] if value is None else [value]
        else:
            samples_s += latency.itl_s(record) if family == "itl" else latency.itl_tok_s(record)
    return sorted(sample * 1000 for sample in samples_s)


def _good(measurement: Measurement, slo: Slo) -> int:
    return sum(slo.request_good(record) for record in measurement.records)
