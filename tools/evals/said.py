"""Said: what one answer holds, as a scorer sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.evals.asker import NoAnswer

__all__ = ["Call", "Said"]


_THOUGHTS = ("reasoning_content", "reasoning")
"Where servers put what a model thought before it answered."


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that the model called."""

    name: str
    arguments: str
    "JSON, as the model wrote it."


@dataclass(frozen=True, slots=True)
class Said:
    """Text, tool calls and how the answer ended."""

    text: str
    calls: tuple[Call, ...] = ()
    finish_reason: str | None = None

    @property
    def shown(self) -> str:
        """Text and calls in one line of text, for people."""
        return self.text + "".join(f" [{call.name} {call.arguments}]" for call in self.calls)

    @classmethod
    def read(cls, choice: Mapping[str, Any]) -> Said:
        """The choice of a chat or of a completion.

        Raises:
            NoAnswer: it holds neither text nor calls.
        """
        message = choice.get("message", choice)
        if not isinstance(message, dict):
            raise NoAnswer(f"expected a message, found {str(message)[:200]}")
        text = message.get("content") if "message" in choice else message.get("text")
        calls = message.get("tool_calls") or []
        reason = choice.get("finish_reason")
        if (text is not None and not isinstance(text, str)) or not isinstance(calls, list):
            raise NoAnswer(f"expected text and tool calls, found {json.dumps(message)[:200]}")
        thought = any(isinstance(message.get(name), str) for name in _THOUGHTS)
        if text is None and not calls and not thought:  # who only thought has answered nothing, and did answer
            raise NoAnswer(f"expected text or tool calls, found {json.dumps(message)[:200]}")
        return cls(text or "", tuple(_call(call) for call in calls), reason if isinstance(reason, str) else None)


def _call(raw: Any) -> Call:
    function = raw.get("function") if isinstance(raw, dict) else None
    name, arguments = (function.get("name"), function.get("arguments")) if isinstance(function, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(arguments, str):
        raise NoAnswer(f"expected a tool call with a name and arguments, found {str(raw)[:200]}")
    return Call(name, arguments)
