"""Reading `vllm bench serve --save-result`, with `--save-detailed` or without (vLLM 0.32; SGLang's names where equal).

Its stamps are of every SSE message with `choices`. A chat server opens the stream with a message that has the role and
no token; vLLM ends its TTFT there and counts the way to the first token as a gap.
"""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Any

from tools.errors import UserError
from tools.formats.document import Foreign, checked
from tools.formats.reading import ForeignSummary, Reading, foreign_measurement
from tools.measure.records import RequestRecord
from tools.measure.summary import METRICS

__all__ = ["LOOKS_LIKE", "read", "recognises"]

LOOKS_LIKE = "an object with backend, model_id, duration and completed"

_KEYS = {"backend", "model_id", "duration", "completed"}

_NOTES = {
    "ttft": "from the send to the first message with choices, which may carry only a role; answered requests alone",
    "itl": "between messages with choices; where a role-only message opens the stream, the first gap leads to the "
    "first token",
    "tpot": "(last message - first message with choices) / (output tokens - 1), answered requests alone",
    "e2el": "from the send, not from when the request was due; answered requests alone",
    "request_goodput": "bounds hold from the send, and each for every request",
}


class _File(Foreign):
    backend: str
    model_id: str
    duration: float
    completed: int
    num_prompts: int


class _Detail(Foreign):
    input_lens: list[int]
    output_lens: list[int]
    ttfts: list[float]
    itls: list[list[float]]
    start_times: list[float]
    errors: list[str]
    latencies: list[float] | None = None
    queue_times: list[float] | None = None


def recognises(document: Any) -> bool:
    return isinstance(document, dict) and document.keys() >= _KEYS


def read(path: Path, document: Any) -> Reading:
    """The file at `path`, whose JSON is `document`.

    Raises:
        UserError: a part is missing, or the lists per request differ in length.
    """
    file = checked(_File, document, path, "vLLM's benchmark result")
    theirs = _theirs(document)
    if "start_times" not in document:
        note = "no requests in the file: run vllm bench serve with --save-detailed to have them"
        return Reading("vllm", "", file.model_id, path.name, None, theirs, notes=(note,))
    detail = checked(_Detail, document, path, "vLLM's detailed benchmark result")
    lengths = {name: len(value) for name, value in detail if value is not None}
    if len(set(lengths.values())) > 1:
        raise UserError(f"{path}: expected one entry per request in each list, found lengths {lengths}; was it cut?")
    opens_with_role = _opens_with_role(file.backend, detail)
    records = [_record(detail, index, opens_with_role) for index in range(len(detail.start_times))]
    notes = ["a stream that was cut short counts as answered: vLLM's client doesn't look for its end"]
    if opens_with_role:
        notes.append("the first message of every answer carries the role and no token: it ends no TTFT here")
    if detail.queue_times is None:
        notes.append("when requests were due isn't told: latencies count from the send")
    due_known = detail.queue_times is not None
    measurement = foreign_measurement(records, due_known=due_known, offered=file.num_prompts, window_s=file.duration)
    return Reading("vllm", "", file.model_id, path.name, measurement, theirs, frozenset({"itl_tok"}), tuple(notes))


def _theirs(document: dict[str, Any]) -> ForeignSummary:
    numbers = {name: float(document[name]) for name in METRICS if isinstance(document.get(name), int | float)}
    return ForeignSummary.of(numbers, _NOTES)


def _opens_with_role(backend: str, detail: _Detail) -> bool:
    """One message more than tokens in every answer of a chat server: the first is the one without a token."""
    answered = [index for index, tokens in enumerate(detail.output_lens) if tokens]
    return (
        "chat" in backend
        and bool(answered)
        and all(len(detail.itls[index]) == detail.output_lens[index] for index in answered)
    )


def _record(detail: _Detail, index: int, opens_with_role: bool) -> RequestRecord:
    sent_s = detail.start_times[index]
    queued_s = detail.queue_times[index] if detail.queue_times is not None else 0.0
    output_tokens = detail.output_lens[index]
    if not output_tokens:
        latency_s = detail.latencies[index] if detail.latencies is not None else 0.0
        error = detail.errors[index].strip().rsplit("\n", 1)[-1] or "no reason given"
        return RequestRecord(
            index, sent_s - queued_s, sent_s, "failed", sent_s + latency_s, error=error, token_source="usage"
        )
    stamps = tuple(accumulate(detail.itls[index], initial=sent_s + detail.ttfts[index]))
    return RequestRecord(
        index=index,
        scheduled_s=sent_s - queued_s,
        sent_s=sent_s,
        outcome="ok",
        end_s=stamps[-1],
        first_chunk_s=stamps[0],
        token_times_s=stamps[1:] if opens_with_role else stamps,
        prompt_tokens=detail.input_lens[index],
        output_tokens=output_tokens,
        token_source="usage",
    )
