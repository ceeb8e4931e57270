"""Reading guidellm's JSON report (0.8.1): per request, its first and its last token; no gaps between.

A report holds one or more benchmarks (a sweep has one per rate); each is a reading of its own.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from tools.errors import UserError
from tools.formats.document import Foreign, checked
from tools.formats.reading import ForeignSummary, Reading, foreign_measurement, without_stamps
from tools.measure.records import Outcome, RequestRecord

__all__ = ["LOOKS_LIKE", "read", "recognises"]

LOOKS_LIKE = "an object with benchmarks, a list of objects with metrics and requests"

_LATENCIES = {  # ours: (theirs, their unit in ms)
    "ttft": ("time_to_first_token_ms", 1.0),
    "tpot": ("time_per_output_token_ms", 1.0),
    "itl": ("inter_token_latency_ms", 1.0),
    "e2el": ("request_latency", 1000.0),
}
_STATISTICS = {"mean": "mean", "median": "median", "std": "std_dev"}
_PERCENTILES = ("p50", "p90", "p95", "p99")
_THROUGHPUTS = {
    "request_throughput": "requests_per_second",
    "output_throughput": "output_tokens_per_second",
    "total_token_throughput": "tokens_per_second",
}
_STEP = "percentiles are a sample each, not interpolated"
_NOTES = {
    "ttft": f"from the send; answered requests alone; {_STEP}",
    "tpot": "end-to-end time / output tokens, the first token's wait included: it isn't our tpot, and exceeds it; "
    f"weighted by tokens; {_STEP}",
    "itl": "each request's mean gap (our tpot), weighted by its tokens: a stall inside an answer is averaged away; "
    f"{_STEP}",
    "e2el": f"from the send to the end of the stream, after the last token; answered requests alone; {_STEP}",
    "slo_attainment": "good / determined requests: those cut off at the end don't count",
}


class _Timings(Foreign):
    targeted_start: float | None = None
    request_start: float | None = None
    first_request_iteration: float | None = None
    first_token_iteration: float | None = None
    last_token_iteration: float | None = None
    request_end: float | None = None
    resolve_start: float | None = None
    resolve_end: float | None = None

    @property
    def sent(self) -> float | None:
        return self.request_start if self.request_start is not None else self.resolve_start

    @property
    def end(self) -> float | None:
        return self.request_end if self.request_end is not None else self.resolve_end


class _Info(Foreign):
    error: str | None = None
    timings: _Timings


class _Request(Foreign):
    info: _Info
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


class _Requests(Foreign):
    successful: list[_Request]
    errored: list[_Request]
    incomplete: list[_Request]


class _Benchmark(Foreign):
    config: dict[str, Any]
    metrics: dict[str, Any]
    requests: _Requests
    duration: float


class _Metadata(Foreign):
    guidellm_version: str = ""


class _File(Foreign):
    metadata: _Metadata = _Metadata()
    benchmarks: list[_Benchmark]


def recognises(document: Any) -> bool:
    benchmarks = document.get("benchmarks") if isinstance(document, dict) else None
    return isinstance(benchmarks, list) and all(
        isinstance(benchmark, dict) and {"metrics", "requests"} <= benchmark.keys() for benchmark in benchmarks
    )


def read(path: Path, document: Any, part: int | None = None) -> Reading:
    """Benchmark `part` (0 is the first) of the report; without it, the only one.

    Raises:
        UserError: a part is missing; no such benchmark, or several and none chosen.
    """
    file = checked(_File, document, path, "guidellm's report")
    names = [str(b.config.get("strategy", {}).get("type_", "benchmark")) for b in file.benchmarks]
    count = len(file.benchmarks)
    if part is None and count != 1:
        listed = ", ".join(f"{i}: {name}" for i, name in enumerate(names))
        raise UserError(f"{path}: expected one benchmark, found {count} ({listed or 'none'}); choose one with --part")
    chosen = part or 0
    if not 0 <= chosen < count:
        raise UserError(f"{path}: --part: expected 0 to {count - 1}, found {chosen}")
    return _reading(path, file.metadata.guidellm_version, file.benchmarks[chosen])


def _reading(path: Path, version: str, benchmark: _Benchmark) -> Reading:
    requests = benchmark.requests
    every = [*requests.successful, *requests.errored]
    due_known = bool(every) and all(_due(request.info.timings) is not None for request in every)
    records = _records(requests.successful, "ok", due_known) + _records(requests.errored, "failed", due_known)
    started_at = min((record.scheduled_s for record in records), default=math.nan)
    notes = ["no gap between tokens is in the file, only the first and the last token of each answer"]
    if not due_known:
        notes.append("when requests were due isn't told on the clock of the sends: latencies count from the send")
    if requests.incomplete:
        notes.append(f"{len(requests.incomplete)} requests were cut off at the end of the run and are left out")
    model = str(benchmark.config.get("backend", {}).get("model") or "")
    return Reading(
        "guidellm",
        version,
        model,
        path.name,
        foreign_measurement(records, started_at=started_at, due_known=due_known, offered=len(every)),
        _theirs(benchmark),
        frozenset({"itl", "itl_tok", "max_itl_ms", "tokens_per_chunk_mean"}) | without_stamps(records),
        tuple(notes),
    )


def _due(timings: _Timings) -> float | None:
    """When the request should have started; None where the file has a moment of another clock there (0.8.1 does)."""
    due, sent = timings.targeted_start, timings.request_start
    if due is None or sent is None or not sent - 3600 <= due <= sent + 0.001:
        return None
    return min(due, sent)


def _records(requests: list[_Request], outcome: Outcome, due_known: bool) -> list[RequestRecord]:
    """A request that failed before it had any time of its own leaves no record; it counts as offered."""
    records = []
    for request in requests:
        timings = request.info.timings
        sent_s, end_s = timings.sent, timings.end
        if sent_s is None or end_s is None:
            continue
        due_s = _due(timings) if due_known else sent_s
        tokens = [time for time in (timings.first_token_iteration, timings.last_token_iteration) if time is not None]
        record = RequestRecord(
            index=0,
            scheduled_s=sent_s if due_s is None else due_s,
            sent_s=sent_s,
            outcome=outcome,
            end_s=end_s,
            error=(request.info.error or "no reason given") if outcome == "failed" else "",
            first_chunk_s=timings.first_request_iteration,
            token_times_s=tuple(tokens),
            prompt_tokens=request.prompt_tokens,
            output_tokens=request.output_tokens,
            cached_tokens=request.cached_tokens,
            token_source="usage",
        )
        records.append(record)
    return records


def _theirs(benchmark: _Benchmark) -> ForeignSummary:
    metrics = benchmark.metrics
    found: dict[str, float] = {}
    for ours, (theirs, unit_ms) in _LATENCIES.items():
        of_answered = (metrics.get(theirs) or {}).get("successful") or {}
        if not of_answered.get("count"):
            continue  # guidellm writes zeros where there was nothing to measure
        found |= {f"{name}_{ours}_ms": of_answered[key] * unit_ms for name, key in _STATISTICS.items()}
        found |= {f"{name}_{ours}_ms": of_answered["percentiles"][name] * unit_ms for name in _PERCENTILES}
    for ours, theirs in _THROUGHPUTS.items():
        of_answered = (metrics.get(theirs) or {}).get("successful") or {}
        if of_answered.get("count"):
            found[ours] = of_answered["mean"]
    for name in ("slo_attainment", "request_goodput"):
        if isinstance(metrics.get(name), int | float):
            found[name] = metrics[name]
    found |= {
        "completed": len(benchmark.requests.successful),
        "failed": len(benchmark.requests.errored),
        "duration": benchmark.duration,
    }
    return ForeignSummary.of(found, _NOTES)
