"""Reading aiperf's exports (0.13): the aggregates of `profile_export_aiperf.json`, the requests of
`profile_export.jsonl`. Given either, the other is read too where it lies beside it.
"""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Any

from tools.formats.document import Foreign, checked, json_lines, load_json
from tools.formats.reading import ForeignSummary, Reading, foreign_measurement, without_stamps
from tools.measure.records import RequestRecord

__all__ = ["LOOKS_LIKE", "LOOKS_LIKE_LINES", "read", "recognises", "recognises_line"]

LOOKS_LIKE = "an object with aiperf_version and request_latency"
LOOKS_LIKE_LINES = "lines of objects with metadata and metrics"

_NS = 1e-9
_SUFFIX = "_aiperf.json"

_LATENCIES = {
    "ttft": "time_to_first_token",
    "tpot": "inter_token_latency",
    "itl": "inter_chunk_latency",
    "e2el": "request_latency",
}
_STATISTICS = {"mean": "avg", "median": "p50", "std": "std", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
_THROUGHPUTS = {
    "request_throughput": "request_throughput",
    "output_throughput": "output_token_throughput",
    "total_token_throughput": "total_token_throughput",
    "duration": "benchmark_duration",
    "completed": "request_count",
}
_MILLISECONDS = {"ms": 1.0, "sec": 1000.0, "s": 1000.0, "us": 1e-3, "ns": 1e-6}
_NOTES = {
    "ttft": "from the send; answered requests alone",
    "tpot": "aiperf's inter_token_latency: (latency - ttft) / (output tokens - tokens of the first chunk), tokens "
    "counted by the client's tokenizer",
    "itl": "aiperf's inter_chunk_latency; its inter_token_latency is our tpot",
    "e2el": "from the send; answered requests alone",
    "output_throughput": "tokens counted by the client's tokenizer, without those of the chat template",
    "total_token_throughput": "tokens counted by the client's tokenizer, without those of the chat template",
}


class _Value(Foreign):
    value: Any


class _Metadata(Foreign):
    credit_issued_ns: int | None = None
    request_start_ns: int
    request_ack_ns: int | None = None
    request_end_ns: int
    was_cancelled: bool = False
    benchmark_phase: str = "profiling"
    conversation_id: str | None = None
    turn_index: int = 0


class _Error(Foreign):
    code: int | None = None
    type: str | None = None
    message: str | None = None


class _Line(Foreign):
    metadata: _Metadata
    metrics: dict[str, _Value]
    error: _Error | None = None

    def number(self, *names: str) -> float | None:
        """The first of the metrics `names` that is there."""
        for name in names:
            if name in self.metrics:
                return float(self.metrics[name].value)
        return None


class _Stat(Foreign):
    unit: str
    avg: float | None = None
    std: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None


def recognises(document: Any) -> bool:
    return isinstance(document, dict) and {"aiperf_version", "request_latency"} <= document.keys()


def recognises_line(line: Any) -> bool:
    return isinstance(line, dict) and {"metadata", "metrics"} <= line.keys() and "request_start_ns" in line["metadata"]


def read(path: Path) -> Reading:
    """Both files, given either of them.

    Raises:
        UserError: a part is missing.
    """
    if path.name.endswith(_SUFFIX):
        summary, lines = path, path.with_name(path.name.removesuffix(_SUFFIX) + ".jsonl")
    else:
        summary, lines = path.with_name(path.name.split(".")[0] + _SUFFIX), path
    document = load_json(summary) if summary.exists() else {}
    models = (document.get("input_config") or {}).get("models") or {}
    names = [str(item.get("name", "")) for item in models.get("items", []) if isinstance(item, dict)]
    version = str(document.get("aiperf_version", ""))
    theirs = _theirs(document, summary) if document else None
    model = names[0] if len(names) == 1 else ""
    if not lines.exists():
        note = f"no requests: {lines.name}, which has them, isn't beside it"
        return Reading("aiperf", version, model, path.name, None, theirs, notes=(note,))
    every = [checked(_Line, line, lines, "aiperf's records") for line in json_lines(lines)]
    profiling = [line for line in every if line.metadata.benchmark_phase == "profiling"]
    kept = [line for line in profiling if not line.metadata.was_cancelled]
    due_known = bool(kept) and all(line.metadata.credit_issued_ns is not None for line in kept)
    notes = []
    if due_known:
        notes.append("a request counts as due when aiperf's timing manager issued it")
    if len(kept) < len(profiling):
        notes.append(f"{len(profiling) - len(kept)} requests were cancelled by aiperf and are left out")
    # Nanoseconds since 1970 don't fit a float's 53 bits to the microsecond: take the start away as integers.
    origin_ns = min((min(_due_ns(line), line.metadata.request_start_ns) for line in kept), default=0)
    numbers: dict[str | None, int] = {}
    for line in kept:
        numbers.setdefault(line.metadata.conversation_id, len(numbers))
    records = [_record(line, origin_ns, numbers[line.metadata.conversation_id]) for line in kept]
    measurement = foreign_measurement(records, started_at=origin_ns * _NS, due_known=due_known)
    lacks = {"itl_tok"} | without_stamps(records)
    return Reading("aiperf", version, model, path.name, measurement, theirs, frozenset(lacks), tuple(notes))


def _due_ns(line: _Line) -> int:
    issued = line.metadata.credit_issued_ns
    return line.metadata.request_start_ns if issued is None else min(issued, line.metadata.request_start_ns)


def _record(line: _Line, origin_ns: int, conversation: int) -> RequestRecord:
    sent_s = (line.metadata.request_start_ns - origin_ns) * _NS
    end_s = (line.metadata.request_end_ns - origin_ns) * _NS
    due_s = (_due_ns(line) - origin_ns) * _NS
    if line.error is not None:
        error = f"{line.error.type or ''}: {line.error.message or ''}".strip(": ") or "no reason given"
        return RequestRecord(
            index=0,
            scheduled_s=due_s,
            sent_s=sent_s,
            outcome="failed",
            end_s=end_s,
            http_status=line.error.code,
            error=error,
            token_source="usage",
            conversation=conversation,
            turn=line.metadata.turn_index,
        )
    ttft_ms = line.number("time_to_first_token")
    gaps = line.metrics.get("inter_chunk_latency")
    gaps_s = [float(gap) / 1000 for gap in gaps.value] if gaps is not None else []
    stamps = () if ttft_ms is None else tuple(accumulate(gaps_s, initial=sent_s + ttft_ms / 1000))
    counted = "usage_completion_tokens" in line.metrics
    prompt, output, cached = (
        line.number("usage_prompt_tokens", "input_sequence_length"),
        line.number("usage_completion_tokens", "output_sequence_length"),
        line.number("usage_prompt_cache_read_tokens"),
    )
    return RequestRecord(
        index=0,
        scheduled_s=due_s,
        sent_s=sent_s,
        outcome="ok",
        end_s=end_s,
        token_times_s=stamps,
        prompt_tokens=None if prompt is None else int(prompt),
        output_tokens=None if output is None else int(output),
        cached_tokens=None if cached is None else int(cached),
        token_source="usage" if counted else "chunks",
        conversation=conversation,
        turn=line.metadata.turn_index,
    )


def _theirs(document: dict[str, Any], path: Path) -> ForeignSummary:
    found: dict[str, float] = {}
    for ours, theirs in _LATENCIES.items():
        if theirs in document:
            stat = checked(_Stat, document[theirs], path, "aiperf's summary")
            unit_ms = _MILLISECONDS[stat.unit]
            for name, key in _STATISTICS.items():
                value = getattr(stat, key)
                if value is not None:
                    found[f"{name}_{ours}_ms"] = value * unit_ms
    for ours, theirs in _THROUGHPUTS.items():
        if theirs in document:
            stat = checked(_Stat, document[theirs], path, "aiperf's summary")
            if stat.avg is not None:
                found[ours] = stat.avg
    # One entry per distinct error, each with its count; request_count has the answered ones alone.
    found["failed"] = float(sum(entry.get("count", 0) for entry in document.get("error_summary") or []))
    return ForeignSummary.of(found, _NOTES)
