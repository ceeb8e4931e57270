"""Reading inference-perf's reports (0.7): aggregates of `summary_` or `stage_N_lifecycle_metrics.json`, requests of
`per_request_lifecycle_metrics.json`. Given the summary or the requests, the other is read too where it lies beside it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.formats.document import Foreign, checked, load_json
from tools.formats.reading import ForeignSummary, Reading, foreign_measurement, without_stamps
from tools.measure.records import RequestRecord

__all__ = ["LOOKS_LIKE", "LOOKS_LIKE_REQUESTS", "read", "recognises", "recognises_requests"]

LOOKS_LIKE = "an object with load_summary, successes and failures"
LOOKS_LIKE_REQUESTS = "a list of objects with start_time, end_time and error"

_SUMMARY, _REQUESTS = "summary_lifecycle_metrics.json", "per_request_lifecycle_metrics.json"

_LATENCIES = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "itl": "inter_token_latency",
    "e2el": "request_latency",
}
_STATISTICS = {"mean": "mean", "median": "median", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"}
_THROUGHPUTS = {
    "request_throughput": "requests_per_sec",
    "output_throughput": "output_tokens_per_sec",
    "total_token_throughput": "total_tokens_per_sec",
}
_RETOKENISED = "tokens counted by tokenizing the answer's text again, unless the run used the server's counts"
_NOTES = {
    "ttft": "from the send to the first chunk with text; answered requests alone",
    "tpot": f"(end-to-end - ttft) / (output tokens - 1); {_RETOKENISED}",
    "itl": "between tokens by the client's tokenizer: those of one chunk have gaps of 0 between them",
    "e2el": "from the send to the end of the stream, after the last token; answered requests alone",
    "output_throughput": _RETOKENISED,
    "total_token_throughput": _RETOKENISED,
}


class _Text(Foreign):
    input_tokens: int | None = None


class _RequestMetrics(Foreign):
    text: _Text = _Text()


class _ResponseMetrics(Foreign):
    server_usage: dict[str, Any] | None = None
    output_tokens: int | None = None
    chunk_times: list[float] | None = None
    output_token_times: list[float] | None = None


class _Info(Foreign):
    request_metrics: _RequestMetrics = _RequestMetrics()
    response_metrics: _ResponseMetrics | None = None


class _Error(Foreign):
    error_type: str = ""
    error_msg: str = ""


class _Request(Foreign):
    start_time: float
    end_time: float
    info: _Info | None = None
    error: _Error | None = None


class _Successes(Foreign):
    count: int
    latency: dict[str, dict[str, float | None] | None]
    throughput: dict[str, float]


class _Failures(Foreign):
    count: int


class _Summary(Foreign):
    benchmark_time_seconds: float | None = None
    load_summary: dict[str, Any]
    successes: _Successes
    failures: _Failures


def recognises(document: Any) -> bool:
    return isinstance(document, dict) and {"load_summary", "successes", "failures"} <= document.keys()


def recognises_requests(document: Any) -> bool:
    return (
        isinstance(document, list)
        and bool(document)
        and isinstance(document[0], dict)
        and {"start_time", "end_time", "error"} <= document[0].keys()
    )


def read(path: Path, document: Any) -> Reading:
    """The file at `path`, whose JSON is `document`.

    A stage's file stands alone: the requests' file doesn't tell the stages apart.

    Raises:
        UserError: a part is missing.
    """
    summary, requests = path.with_name(_SUMMARY), path.with_name(_REQUESTS)
    if isinstance(document, list):
        theirs = _theirs(load_json(summary), summary) if summary.exists() else None
        return _with_requests(path, document, theirs)
    theirs = _theirs(document, path)
    if path.name == _SUMMARY and requests.exists():
        return _with_requests(path, load_json(requests), theirs)
    note = f"no requests in the file: {_REQUESTS} has them where report.request_lifecycle.per_request was on"
    return Reading("inference-perf", "", "", path.name, None, theirs, notes=(note,))


def _with_requests(path: Path, document: list[Any], theirs: ForeignSummary | None) -> Reading:
    requests = [checked(_Request, request, path, "inference-perf's requests") for request in document]
    counted = all(_usage(request) is not None for request in requests if request.error is None)
    records = [_record(request) for request in requests]
    notes = ["when requests were due isn't in the file: latencies count from the send"]
    if not counted:
        notes.append("some token counts are the client's, from tokenizing the answer's text again")
    unstamped = without_stamps(records)
    if unstamped:
        notes.append("some answers come without the times of their tokens, so no latency can be told")
    measurement = foreign_measurement(records, due_known=False)
    return Reading("inference-perf", "", "", path.name, measurement, theirs, unstamped | {"itl_tok"}, tuple(notes))


def _usage(request: _Request) -> dict[str, Any] | None:
    response = request.info.response_metrics if request.info else None
    return response.server_usage if response else None


def _record(request: _Request) -> RequestRecord:
    start_s, end_s = request.start_time, request.end_time
    if request.error is not None:
        error = f"{request.error.error_type}: {request.error.error_msg}".strip(": ") or "no reason given"
        return RequestRecord(0, start_s, start_s, "failed", end_s, error=error, token_source="usage")
    info = request.info or _Info()
    response = info.response_metrics or _ResponseMetrics()
    usage = response.server_usage or {}
    prompt = usage.get("prompt_tokens", usage.get("input_tokens", info.request_metrics.text.input_tokens))
    output = usage.get("completion_tokens", usage.get("output_tokens", response.output_tokens))
    # A chunk of several tokens repeats its stamp in output_token_times; one stamp a chunk is what our gaps are between.
    stamps = tuple(dict.fromkeys(response.output_token_times or ()))
    return RequestRecord(
        index=0,
        scheduled_s=start_s,
        sent_s=start_s,
        outcome="ok",
        end_s=end_s,
        first_chunk_s=response.chunk_times[0] if response.chunk_times else None,
        token_times_s=stamps,
        prompt_tokens=prompt,
        output_tokens=output,
        cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        token_source="usage" if usage else "chunks",
    )


def _theirs(document: Any, path: Path) -> ForeignSummary:
    file = checked(_Summary, document, path, "inference-perf's summary")
    found: dict[str, float] = {}
    for ours, theirs in _LATENCIES.items():
        seconds = file.successes.latency.get(theirs) or {}
        for name, key in _STATISTICS.items():
            value = seconds.get(key)
            if value is not None:
                found[f"{name}_{ours}_ms"] = value * 1000
    for ours, theirs in _THROUGHPUTS.items():
        if theirs in file.successes.throughput:
            found[ours] = file.successes.throughput[theirs]
    found |= {"completed": float(file.successes.count), "failed": float(file.failures.count)}
    if file.benchmark_time_seconds is not None:
        found["duration"] = file.benchmark_time_seconds
    return ForeignSummary.of(found, _NOTES)
