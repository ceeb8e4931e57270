"""complete(): one JSON object from an OpenAI-compatible endpoint, with every check that the SDK leaves out.

The SDK owns the retries (two, with back-off, Retry-After honoured); nothing here sends a failed call again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import openai

from agents.proposer import Message, Usage

__all__ = [
    "Completion",
    "CompletionError",
    "Malformed",
    "Refused",
    "Transport",
    "Truncated",
    "Wire",
    "complete",
]

_CHARS_PER_TOKEN = 4
_QUOTED_CHARS = 200


@dataclass(frozen=True, slots=True)
class Wire:
    """What the endpoint takes of the two things on which servers differ."""

    response_format: Literal["json_schema", "json_object", "none"] = "json_schema"
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"


@dataclass(frozen=True, slots=True)
class Completion:
    """A JSON object, the text it was read from, what it cost, and the wire that worked: start the next call with it."""

    data: dict[str, Any]
    text: str
    usage: Usage
    wire: Wire


class CompletionError(Exception):
    """No answer that can be used. `usage` is what it cost nevertheless, `text` what was answered."""

    wire: Wire | None = None
    "What the endpoint took, where it took anything."

    def __init__(self, message: str, *, usage: Usage | None = None, text: str = "") -> None:
        super().__init__(message)
        self.usage = usage or Usage()
        self.text = text


class Transport(CompletionError):
    """Not reached, too slow, overloaded or broken, after the SDK's retries."""


class Refused(CompletionError):
    """The endpoint or the model declined: a bad key, an unknown model, a content filter."""


class Truncated(CompletionError):
    """The answer ended at the token limit."""


class Malformed(CompletionError):
    """Not a chat completion, or its content is no JSON object."""


def complete(
    client: openai.OpenAI,
    *,
    model: str,
    messages: Sequence[Message],
    schema: Mapping[str, Any],
    max_tokens: int,
    wire: Wire | None = None,
) -> Completion:
    """One JSON object that answers `messages`, shaped by `schema` as far as the endpoint can.

    An endpoint that answers 400 or 422 is asked again with less: json_schema, then json_object, then neither. The
    shape is not checked against the schema here; the caller knows what its fields mean.

    Raises:
        Transport, Refused, Truncated, Malformed: as they say.
    """
    wire = wire or Wire()
    while True:
        try:
            # The raw response: the SDK would parse whatever came into a ChatCompletion without a check.
            raw = client.chat.completions.with_raw_response.create(
                model=model, **_parameters(messages, schema, max_tokens, wire)
            )
            break
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            less = _with_less(wire, error)
            if less is None:
                raise Refused(_quoted(f"the endpoint refused the request: {error}")) from None
            wire = less
        except openai.APIConnectionError as error:
            raise Transport(_quoted(f"{client.base_url} could not be reached: {error}")) from None
        except openai.APIStatusError as error:
            kind = Transport if error.status_code >= 500 or error.status_code in (408, 409, 429) else Refused
            raise kind(_quoted(f"the endpoint answered {error.status_code}: {error}")) from None
    prompt_chars = sum(len(message["content"]) for message in messages)
    try:
        return _read(raw.text, prompt_chars, wire)
    except CompletionError as error:
        error.wire = wire
        raise


def _parameters(messages: Sequence[Message], schema: Mapping[str, Any], max_tokens: int, wire: Wire) -> Any:
    # No temperature: reasoning models refuse it, and an answer that fails is repaired, not drawn again.
    parameters: dict[str, Any] = {"messages": list(messages), wire.limit_field: max_tokens}
    if wire.response_format == "json_schema":
        named = {"name": "action", "schema": dict(schema), "strict": True}
        parameters["response_format"] = {"type": "json_schema", "json_schema": named}
    elif wire.response_format == "json_object":
        parameters["response_format"] = {"type": "json_object"}
    return parameters


def _with_less(wire: Wire, error: openai.APIStatusError) -> Wire | None:
    if wire.limit_field == "max_tokens" and "max_completion_tokens" in str(error):
        return Wire(wire.response_format, "max_completion_tokens")
    if wire.response_format == "json_schema":
        return Wire("json_object", wire.limit_field)
    if wire.response_format == "json_object":
        return Wire("none", wire.limit_field)
    return None


def _read(body: str, prompt_chars: int, wire: Wire) -> Completion:
    """The completion in an HTTP body of status 200."""
    envelope = _json(body)
    estimate = Usage(prompt_chars // _CHARS_PER_TOKEN, 0, 0, calls=1, estimated=True)
    if not isinstance(envelope, dict):
        raise Malformed(_quoted(f"expected a chat completion, found {body!r}"), usage=estimate)
    if envelope.get("error"):
        raise Malformed(_quoted(f"status 200 with an error: {envelope['error']}"), usage=estimate)
    choices = envelope.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise Malformed(_quoted(f"expected a choice with a message, found {choices!r}"), usage=estimate)
    content = _text(message.get("content"))
    usage = _usage(envelope.get("usage"), prompt_chars, len(content))
    if choice.get("finish_reason") == "content_filter" or message.get("refusal"):
        raise Refused(_quoted(f"the model declined: {message.get('refusal') or 'content filter'}"), usage=usage)
    if choice.get("finish_reason") == "length":
        raise Truncated("the answer was cut at its token limit", usage=usage, text=content)
    return Completion(_object(content, usage), content, usage, wire)


def _text(content: object) -> str:
    """The content as text. Some servers send it in parts, and some send the JSON object itself."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if isinstance(content, dict):
        return json.dumps(content)
    return content if isinstance(content, str) else ""


def _usage(reported: object, prompt_chars: int, answer_chars: int) -> Usage:
    if isinstance(reported, dict):
        prompt, answer = _count(reported.get("prompt_tokens")), _count(reported.get("completion_tokens"))
        if prompt is not None and answer is not None:
            details = reported.get("prompt_tokens_details")
            cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
            return Usage(prompt, answer, cached or 0, calls=1)
    return Usage(prompt_chars // _CHARS_PER_TOKEN, answer_chars // _CHARS_PER_TOKEN, 0, calls=1, estimated=True)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _object(content: str, usage: Usage) -> dict[str, Any]:
    """The first JSON object in `content`: thoughts, code fences and prose around it are passed over."""
    # A chat template can open the thought itself, and a limit can leave it unclosed: both ends count alone.
    bare = content.rpartition("</think>")[2].partition("<think>")[0].strip()
    if not bare:
        raise Malformed("the content is empty", usage=usage, text=content)
    start = bare.find("{")
    value = _json(bare[start:], prefix=True) if start >= 0 else None
    if not isinstance(value, dict):
        raise Malformed(_quoted(f"expected a JSON object, found {bare!r}"), usage=usage, text=content)
    return value


def _json(text: str, *, prefix: bool = False) -> object:
    """The JSON value that `text` is (or, with `prefix`, begins with); None where there is none. NaN is none."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    try:
        return decoder.raw_decode(text)[0] if prefix else decoder.decode(text)
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _quoted(message: str) -> str:
    return message if len(message) <= _QUOTED_CHARS else message[: _QUOTED_CHARS - 1] + "…"
