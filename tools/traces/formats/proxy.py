"""Logs of OpenAI proxies as JSON lines: LiteLLM, Helicone, nginx and OpenResty, and what one writes oneself.

Nobody agreed on the names, so each fact is looked for under the usual ones. Needed are a moment and the two lengths
(from `usage`, or counted in the text); the rest is used where it is there.
"""

from __future__ import annotations

from typing import Any

import orjson

from tools.traces.formats.reader import JsonLines, count_of
from tools.traces.logged import BadLine, LoggedRequest
from tools.traces.moments import moment_s
from tools.traces.prompt import segments_of
from tools.traces.reading import Reading

__all__ = ["PROXY", "body_of"]

Json = dict[str, Any]

_STARTS = (
    "startTime", "start_time", "request_created_at", "time_iso8601", "msec", "timestamp", "created_at", "createdAt",
    "time", "ts", "datetime", "date", "created", "time_local", "@timestamp",
)  # fmt: skip
_ENDS = ("endTime", "end_time", "response_created_at", "completed_at")
_DURATIONS = {
    "duration_s": 1.0, "latency_s": 1.0, "request_time": 1.0, "upstream_response_time": 1.0, "response_time": 1.0,
    "duration": 1.0, "latency": 1.0, "delay_ms": 1e-3, "latency_ms": 1e-3, "duration_ms": 1e-3, "e2e_ms": 1e-3,
    "response_time_ms": 1e-3, "responseTimeMs": 1e-3,
}  # fmt: skip
_BODIES = ("request_body", "requestBody", "request", "body", "payload", "input", "kwargs", "params")
_ANSWERS = ("response_body", "responseBody", "response", "output", "completion", "response_obj")
_SESSIONS = (
    "session_id", "sessionId", "conversation_id", "conversationId", "thread_id", "litellm_session_id", "chat_id",
    "Helicone-Session-Id", "helicone-session-id", "trace_id",
)  # fmt: skip
_NESTS = ("metadata", "request_properties", "properties", "requester_metadata")
_PROMPTS = ("prompt_tokens", "input_tokens", "promptTokens", "inputTokens")
_OUTPUTS = ("completion_tokens", "output_tokens", "completionTokens", "outputTokens")
_LOG_AT_END = ("time_iso8601", "msec", "time_local")  # nginx writes its line, and its clock, when the answer is done


def body_of(data: Json) -> Json | None:
    """The request's body in one line of a proxy's log, wherever it stands; None where it wasn't logged."""
    for candidate in (data, *(_object(data.get(name)) for name in _BODIES)):
        if candidate and isinstance(candidate.get("messages", candidate.get("prompt")), str | list):
            return candidate
    return None


def _knows(data: Json) -> bool:
    return _first(data, _STARTS) is not None and (body_of(data) is not None or _usage(data) is not None)


def _row(data: Json, reading: Reading) -> LoggedRequest | None:
    status = data.get("status", data.get("status_code", data.get("response_status", 200)))
    if isinstance(status, int | str) and str(status).isdigit() and int(status) >= 400:
        reading.left_out[f"failed (status {int(status)})"] += 1
        return None
    if str(status).lower() in ("failure", "failed", "error"):
        reading.left_out["failed"] += 1
        return None
    found = _first(data, _STARTS)
    if found is None:
        raise BadLine("expected a moment under one of " + ", ".join(_STARTS[:6]) + " ..., found none")
    name, value = found
    at_s, duration_s = moment_s(value), _duration_s(data)
    if name in _LOG_AT_END and duration_s is not None:
        at_s -= duration_s
    elif (end := _first(data, _ENDS)) is not None:
        duration_s = max(moment_s(end[1]) - at_s, 0.0)
    body, usage = body_of(data), _usage(data)
    counted = None if usage is None else _first(usage, _PROMPTS)
    prompt = None if counted is None else count_of(counted[0], counted[1])
    blocks: tuple[int, ...] | None = None
    if body is not None:
        model = str(body.get("model") or data.get("model") or "")
        ids = body.get("prompt")
        if isinstance(ids, list) and ids and all(type(token) is int for token in ids):
            prompt, blocks = len(ids), reading.prompt_ids(ids, root=model)
        else:
            prompt, blocks = reading.prompt(segments_of(body), prompt or None, root=model)
    output = _output_tokens(data, usage, reading)
    if not prompt:
        raise BadLine("expected usage.prompt_tokens or the request's messages or prompt, found none")
    if output == 0:
        reading.left_out["no answer (0 output tokens)"] += 1
        return None
    return LoggedRequest(at_s, prompt, output, blocks, duration_s=duration_s, session=_session(data))


def _output_tokens(data: Json, usage: Json | None, reading: Reading) -> int:
    counted = None if usage is None else _first(usage, _OUTPUTS)
    if counted is not None:
        return count_of(counted[0], counted[1])
    text = _answer_text(data)
    if text is None:
        raise BadLine("expected usage.completion_tokens or the answer's text, found neither")
    reading.note("some output lengths are counted in the text, for the log has no usage there")
    return reading.answer_tokens(text)


def _answer_text(data: Json) -> str | None:
    for name in _ANSWERS:
        answer = _object(data.get(name))
        if answer is None and isinstance(data.get(name), str):
            return str(data[name])
        choices = (answer or {}).get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            message = choices[0].get("message") or {}
            return str(message.get("content") or choices[0].get("text") or "")
    return None


def _usage(data: Json) -> Json | None:
    """The usage object, from the answer (a stream's last chunks too), or from the line itself."""
    for name in _ANSWERS:
        answer = _object(data.get(name))
        if answer is None and isinstance(data.get(name), str) and "data:" in data[name]:
            answer = _last_usage(data[name])
        if answer is not None and isinstance(answer.get("usage"), dict):
            return dict(answer["usage"])
    if (usage := _object(data.get("usage"))) is not None:
        return usage
    return data if _first(data, _PROMPTS) and _first(data, _OUTPUTS) else None


def _last_usage(stream: str) -> Json | None:
    for line in reversed(stream.splitlines()):
        chunk = _object(line.removeprefix("data:").strip())
        if chunk is not None and isinstance(chunk.get("usage"), dict):
            return chunk
    return None


def _duration_s(data: Json) -> float | None:
    for name, unit in _DURATIONS.items():
        value = data.get(name)
        try:
            found = float(str(value)) * unit if value is not None and not isinstance(value, bool) else -1.0
        except ValueError:  # nginx writes "-" where there was no upstream
            continue
        if found >= 0:
            return found
    return None


def _session(data: Json) -> str | None:
    for place in (data, *(_object(data.get(name)) or {} for name in _NESTS)):
        if (found := _first(place, _SESSIONS)) is not None:
            return str(found[1])
    return None


def _first(data: Json, names: tuple[str, ...]) -> tuple[str, Any] | None:
    for name in names:
        if data.get(name) is not None:
            return name, data[name]
    return None


def _object(value: Any) -> Json | None:
    """`value` as an object; proxies often log bodies as JSON text within JSON."""
    if isinstance(value, str) and value[:1] == "{":
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    return value if isinstance(value, dict) else None


PROXY = JsonLines(
    "openai-proxy",
    "JSON lines with a moment, the request's body (messages or prompt) and usage, as LiteLLM, Helicone or nginx spell "
    "them",
    _knows,
    _row,
)
