"""Summary: a measurement's flat numbers, under the names that vLLM and SGLang use.

Latency families (`latency.py` has the formulas), each as mean, median, std, p50, p90, p95, p99, in milliseconds:
`ttft` `tpot` `itl` `e2el`, then `ttft_from_send` `e2el_from_send` (from the send, not from the moment a request was
due), `itl_tok` (per token rather than per chunk) and, where conversations have several turns, `task`: the time to the
last token of a whole conversation, its requests' `e2el` together; what its user took between turns isn't counted.

Who counts: completed requests, and timed-out ones with the time they had waited. A failed request has no latency; it
takes part in `ttft` and `e2el` percentiles as longer than any other, so that refusing requests never makes one look
better, and is left out of mean and std, which tell of those that were answered. What can't be told is absent, never 0:
a percentile that falls on a failed request, and a p99 of fewer than 368 samples, which has no 95 % interval.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from tools.measure import latency
from tools.measure.dependence import Certainty, certainties, inflation
from tools.measure.intervals import Interval, percentile, wilson_interval
from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord
from tools.measure.slo import Slo

__all__ = [
    "METRICS",
    "MIN_SAMPLES_P99",
    "effective_samples",
    "lower_is_better",
    "percentile_certainties",
    "samples_ms",
    "summarise",
    "summary_intervals",
    "tokens_per_price",
]

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
_FAMILIES = ("ttft", "tpot", "itl", "e2el", "ttft_from_send", "e2el_from_send", "itl_tok", "task")

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
    "stutter_share",
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
    bounds, `stutter_share` (sequences with a pause / offered) one with `stutter`; a request that failed or left no
    record counts against the server in each. Throughputs count completed requests alone. `duration` is in seconds.
    """
    found: dict[str, float] = {}
    ascending = {family: sorted(_samples_ms(measurement, family).values) for family in _FAMILIES}
    for family, samples in ascending.items():
        found |= _statistics(family, samples)
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
    if slo is not None and slo.stutter is not None and measurement.offered:
        smooth = sum(not slo.stutter.stutters(record) for record in measurement.records)
        found["stutter_share"] = (measurement.offered - smooth) / measurement.offered
    queries, hits = measurement.counted("prefix_queries_tokens"), measurement.counted("prefix_hit_tokens")
    if queries and hits is not None:
        found["prefix_hit_rate"] = hits / queries
    if ascending["itl"]:
        found["max_itl_ms"] = ascending["itl"][-1]
    chunks = sum(len(record.token_times_s) for record in ok)
    if chunks:
        found["tokens_per_chunk_mean"] = output_tokens / chunks
    return {metric: float(found[metric]) for metric in METRICS if metric in found}


def samples_ms(measurement: Measurement, family: str) -> tuple[float, ...]:
    """Every sample of a family of latencies that the summary's statistics are of, in milliseconds; a failed request's
    is infinite.

    Raises:
        ValueError: no such family.
    """
    if family not in _FAMILIES:
        raise ValueError(f"expected one of {', '.join(_FAMILIES)}, found {family!r}")
    return tuple(_samples_ms(measurement, family).values)


def summary_intervals(measurement: Measurement, slo: Slo | None = None) -> dict[str, Interval]:
    """95 % intervals of the percentiles, of `slo_attainment` and of `stutter_share` (Wilson, of effective numbers).

    They allow for requests that waited for the same reason (`dependence.py`), and tell how well *this* load pins the
    number down; how much launches differ, only further trials tell. A metric whose effective sample is too small for
    an interval is absent.
    """
    found = {
        name: one.interval for name, one in percentile_certainties(measurement).items() if one.interval is not None
    }
    if slo is not None and slo.bounds():
        good = [slo.request_good(record) for record in _by_time(measurement.records)]
        found |= _share_interval("slo_attainment", good, measurement.offered)
    if slo is not None and slo.stutter is not None:
        # Requests that left no record have stuttered, as in the summary.
        stuttered = [slo.stutter.stutters(record) for record in _by_time(measurement.records)]
        stuttered += [True] * (measurement.offered - len(stuttered))
        found |= _share_interval("stutter_share", stuttered, measurement.offered)
    return found


def percentile_certainties(measurement: Measurement) -> dict[str, Certainty]:
    """How sure each percentile of each family that has samples is, under its flat name."""
    found: dict[str, Certainty] = {}
    for family in _FAMILIES:
        samples = _samples_ms(measurement, family)
        if samples.values:
            each = certainties(samples.values, tuple(_PERCENTILES.values()), sizes=samples.sizes)
            found |= {f"{name}_{family}_ms": one for name, one in zip(_PERCENTILES, each, strict=True)}
    return found


def effective_samples(measurement: Measurement) -> dict[str, float]:
    """Per percentile, how many independent samples would tell as much as this load does; at most as many as there are.

    Far fewer than samples means that requests waited for the same reason: a longer load tells more, not a busier one.
    """
    return {name: one.effective_samples for name, one in percentile_certainties(measurement).items()}


def tokens_per_price(summary: Mapping[str, float], price_per_hour: float) -> dict[str, float]:
    """Millions of tokens for one unit of currency, at `price_per_hour` for what served them.

    `mtokens_per_currency` counts prompt and output tokens, `output_mtokens_per_currency` output tokens; absent where
    `summary` lacks the throughput.

    Raises:
        ValueError: a price that isn't positive.
    """
    if not 0 < price_per_hour < math.inf:
        raise ValueError(f"expected a price per hour above 0, found {price_per_hour}")
    names = {
        "mtokens_per_currency": "total_token_throughput",
        "output_mtokens_per_currency": "output_throughput",
    }
    return {name: summary[rate] * 3600 / 1e6 / price_per_hour for name, rate in names.items() if rate in summary}


class _Samples(NamedTuple):
    """Milliseconds in the order of their requests, and how many each request gave."""

    values: list[float]
    sizes: list[int]


def _statistics(family: str, ascending: list[float]) -> dict[str, float]:
    found = {name: percentile(ascending, share) for name, share in _PERCENTILES.items()}
    found["median"] = found["p50"]
    if len(ascending) < MIN_SAMPLES_P99:
        found["p99"] = None
    answered = ascending[: bisect_left(ascending, math.inf)]
    if answered:
        found["mean"] = math.fsum(answered) / len(answered)
        found["std"] = float(np.std(answered))  # of the sample itself, as numpy's default and vLLM have it
    return {f"{name}_{family}_ms": value for name, value in found.items() if value is not None}


def _share_interval(name: str, flags: list[bool], offered: int) -> dict[str, Interval]:
    """Wilson's interval of the true flags' share in `offered`, both numbers cut to what is independent in them."""
    shrunk = inflation(flags)
    interval = wilson_interval(sum(flags) / shrunk, offered / shrunk)
    return {} if interval is None else {name: interval}


def _samples_ms(measurement: Measurement, family: str) -> _Samples:
    """All samples of `family`, in milliseconds; a failed request's latency is infinite."""
    if family == "task":
        tasks_s = _tasks_s(measurement.records)
        return _Samples([task * 1000 for task in tasks_s], [1] * len(tasks_s))
    values: list[float] = []
    sizes: list[int] = []
    for record in _by_time(measurement.records):
        found_s = _record_samples_s(record, family)
        values.extend(sample * 1000 for sample in found_s)
        sizes.append(len(found_s))
    return _Samples(values, sizes)


def _record_samples_s(record: RequestRecord, family: str) -> tuple[float, ...]:
    if family in _PER_REQUEST:
        value = _PER_REQUEST[family](record)
        return (math.inf if value is None else value,)
    if family == "tpot":
        value = latency.tpot_s(record)
        return () if value is None else (value,)
    return latency.itl_s(record) if family == "itl" else latency.itl_tok_s(record)


def _tasks_s(records: tuple[RequestRecord, ...]) -> list[float]:
    """Seconds of each conversation, in order of their first requests; none where no conversation has a second turn."""
    tasks_s: dict[int, float] = {}
    requests = 0
    for record in _by_time(records):
        if record.conversation is not None:
            requests += 1
            spent_s = latency.e2el_s(record)
            before_s = tasks_s.get(record.conversation, 0.0)
            tasks_s[record.conversation] = before_s + (math.inf if spent_s is None else spent_s)
    return list(tasks_s.values()) if requests > len(tasks_s) else []


def _by_time(records: tuple[RequestRecord, ...]) -> list[RequestRecord]:
    """In the order in which they were due: later turns of a conversation have early indices."""
    return sorted(records, key=lambda record: record.scheduled_s)


def _good(measurement: Measurement, slo: Slo) -> int:
    return sum(slo.request_good(record) for record in measurement.records)
