"""Completion: the JSON object in the body of a chat completion, with every check that the SDK leaves out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.completion_error import CutPrompt, Malformed, Refused, Truncated
from agents.usage import Usage
from agents.wire import Wire

__all__ = ["Completion", "estimated_tokens", "read_completion"]

_CHARS_PER_TOKEN = 3
"Of an estimate. Prompts of this room measure 3.1 (SmolLM2) and 3.6 (Qwen2.5): it rather says too much."
_MOST_CHARS_PER_TOKEN = 6
"No tokenizer packs text and JSON tighter: a smaller count means that the prompt was cut."
_LEAST_CONTEXT_TOKENS = 256
"A count below this for a long prompt is of what wasn't cached, not of what was read."
_STARTS = 64
"Braces at which an object is looked for in prose."


@dataclass(frozen=True, slots=True)
class Completion:
    """A JSON object, the text it was read from, what it cost, and the wire that worked: start the next call with it."""

    data: dict[str, Any]
    text: str
    usage: Usage
    wire: Wire
    reasoned: str = ""
    "Field that held the model's thoughts beside the answer; empty where none did."


def estimated_tokens(chars: int) -> int:
    """Tokens of a text of `chars` characters, roughly."""
    return chars // _CHARS_PER_TOKEN


def read_completion(body: bytes, prompt_chars: int, wire: Wire) -> Completion:
    """The completion in an HTTP body of status 200.

    Raises:
        Malformed, Refused, Truncated, CutPrompt: as they say; with what it cost.
    """
    # A byte that is no UTF-8 spoils the text that it stands in, and nothing else.
    envelope = _json(body.decode("utf-8", "replace"))
    unknown = _usage(envelope.get("usage") if isinstance(envelope, dict) else None, prompt_chars, 0)
    if not isinstance(envelope, dict):
        raise Malformed(f"expected a chat completion, found {body[:200]!r}", usage=unknown)
    if envelope.get("error"):
        raise Malformed(f"status 200 with an error: {envelope['error']}", usage=unknown)
    choices = envelope.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise Malformed(f"expected a choice with a message, found {choices!r}", usage=unknown)
    content, thoughts = _content(message), _thoughts(message)
    usage = _usage(envelope.get("usage"), prompt_chars, len(content) + sum(map(len, thoughts.values())))
    if choice.get("finish_reason") == "content_filter" or message.get("refusal"):
        raise Refused(f"the model declined: {message.get('refusal') or 'content filter'}", usage=usage)
    if not usage.estimated and usage.prompt_tokens * _MOST_CHARS_PER_TOKEN < prompt_chars:
        raise CutPrompt(
            f"the endpoint read {usage.prompt_tokens} tokens of a prompt of about {estimated_tokens(prompt_chars)}: it "
            "cut the prompt; give it a longer context (Ollama: num_ctx)",
            usage=usage,
        )
    if choice.get("finish_reason") == "length":
        raise Truncated("the answer was cut at its token limit", usage=usage, text=content)
    return Completion(_object(content, thoughts, usage), content, usage, wire, next(iter(thoughts), ""))


def _content(message: Mapping[str, Any]) -> str:
    """The answer as text: the content, else the arguments of the first tool call."""
    if content := _text(message.get("content")):
        return content
    calls = message.get("tool_calls")
    call = calls[0] if isinstance(calls, list) and calls else None
    function = call.get("function") if isinstance(call, dict) else None
    return _text(function.get("arguments")) if isinstance(function, dict) else ""


def _text(content: object) -> str:
    """`content` as text. Some servers send it in parts, and some send the JSON object itself."""
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if isinstance(content, dict):
        content = json.dumps(content)
    return content if isinstance(content, str) else ""


def _thoughts(message: Mapping[str, Any]) -> dict[str, str]:
    """What the model thought beside its answer, by the name of the field."""
    found = ((name, _text(message.get(name))) for name in ("reasoning", "reasoning_content"))
    return {name: text for name, text in found if text}


def _usage(reported: object, prompt_chars: int, answer_chars: int) -> Usage:
    prompt, answer = _count(reported, "prompt_tokens"), _count(reported, "completion_tokens")
    partly = prompt is not None and prompt < _LEAST_CONTEXT_TOKENS and prompt * _MOST_CHARS_PER_TOKEN < prompt_chars
    if prompt is None or answer is None or partly:
        return Usage(estimated_tokens(prompt_chars), estimated_tokens(answer_chars), requests=1, estimated=True)
    cached = _count(_inner(reported, "prompt_tokens_details"), "cached_tokens")
    cached = _count(reported, "prompt_cache_hit_tokens") if cached is None else cached
    reasoning = _count(_inner(reported, "completion_tokens_details"), "reasoning_tokens")
    return Usage(prompt, answer, min(cached or 0, prompt), min(reasoning or 0, answer), requests=1)


def _inner(data: object, name: str) -> object:
    return data.get(name) if isinstance(data, dict) else None


def _count(data: object, name: str) -> int | None:
    value = _inner(data, name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _object(content: str, thoughts: Mapping[str, str], usage: Usage) -> dict[str, Any]:
    """The first JSON object in `content`: thoughts, code fences and prose around it are passed over."""
    # A chat template can open the thought itself, and a limit can leave it unclosed: both ends count alone.
    bare = content.rpartition("</think>")[2].partition("<think>")[0].strip()
    if not bare:
        # A server that takes all for thought puts an answer that is nothing but JSON there.
        whole = (_json(thought.strip()) for thought in thoughts.values())
        answer = next((value for value in whole if isinstance(value, dict)), None)
        if answer is not None:
            return answer
        besides = "; the model only thought" if thoughts else ""
        raise Malformed(f"the content is empty{besides}", usage=usage, text=content)
    start = -1
    for _ in range(_STARTS):
        start = bare.find("{", start + 1)
        value = _json(bare[start:], prefix=True) if start >= 0 else None
        if isinstance(value, dict):
            return value
        if start < 0 or bare.startswith('"', start + 1) or bare[start + 1 : start + 2].isspace():
            break  # what looks like an object and is none: nothing inside it is the answer
    raise Malformed(f"expected a JSON object, found {bare!r}", usage=usage, text=content)


def _json(text: str, *, prefix: bool = False) -> object:
    """The JSON value that `text` is (or, with `prefix`, begins with); None where there is none.

    NaN is none, and neither is a text that can't be written down as UTF-8.
    """
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    try:
        value = decoder.raw_decode(text)[0] if prefix else decoder.decode(text)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
