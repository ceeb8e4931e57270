"""Prompt: the parts of an OpenAI request body in the order in which chat templates put them before a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from tools.traces.logged import BadLine

__all__ = ["Segment", "joined", "segments_of"]


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a prompt: a tool definition, a message, or a whole plain prompt."""

    kind: str
    "tool, a message's role, or prompt."
    text: str


def segments_of(body: dict[str, Any]) -> tuple[Segment, ...]:
    """The segments of a chat or completion request: tools first, as the usual templates have them, then the messages.

    Raises:
        BadLine: neither messages nor a prompt in a form the API knows.
    """
    tools = body.get("tools") or body.get("functions") or []
    if not isinstance(tools, list):
        raise BadLine(f"expected tools as a list, found {type(tools).__name__}")
    segments = [Segment("tool", orjson.dumps(tool).decode()) for tool in tools]
    messages = body.get("messages")
    if messages is None and isinstance(body.get("input"), list):  # the Responses API
        messages = body["input"]
    if isinstance(messages, list):
        return (*segments, *(_message(message) for message in messages))
    prompt = body.get("prompt", body.get("input", body.get("text")))
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise BadLine(f"expected messages or one prompt, found {type(prompt).__name__}")
    return (*segments, Segment("prompt", prompt))


def joined(segments: tuple[Segment, ...]) -> str:
    """One text with the roles marked, so that equal texts in other roles aren't taken for the same prompt."""
    return "".join(
        segment.text if segment.kind == "prompt" else f"<{segment.kind}>\n{segment.text}\n" for segment in segments
    )


def _message(message: Any) -> Segment:
    if not isinstance(message, dict):
        raise BadLine(f"expected each message as an object, found {type(message).__name__}")
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(_part(part) for part in content)
    text = content if isinstance(content, str) else ""
    for key in ("tool_calls", "function_call"):
        if message.get(key):
            text += orjson.dumps(message[key]).decode()
    return Segment(str(message.get("role", message.get("type", "user"))), text)


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    return f"[{part.get('type', 'part') if isinstance(part, dict) else 'part'}]"
