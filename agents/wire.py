"""Wire: what one endpoint takes of the things on which servers differ, and what it is asked for instead."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from agents.proposer import Message

__all__ = ["Shape", "Wire"]

Shape = Literal["json_schema", "json_object", "tools", "none"]
"""How the answer's shape is asked for: `response_format`, a native tool whose arguments it is, or in words alone."""

_LESS: Mapping[Shape, Shape] = {"json_schema": "json_object", "tools": "json_object", "json_object": "none"}
_ABOUT_SHAPE = re.compile(r"grammar|schema|response_format|structured|tool", re.IGNORECASE)
_ABOUT_LENGTH = re.compile(r"context (?:length|window|size)|maximum context|too long|too many tokens", re.IGNORECASE)
_REQUEST_STATUSES = (400, 422, 501)


@dataclass(frozen=True, slots=True)
class Wire:
    """The form of a request. Each field starts at what most servers take."""

    response_format: Shape = "json_schema"
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer", "user"] = "system"
    "`user`: the system text stands before the first question, for templates that know no system role."
    temperature: bool = True
    "Whether one may be sent; reasoning models take none."

    def parameters(
        self, messages: Sequence[Message], schema: Mapping[str, Any], max_tokens: int, temperature: float | None
    ) -> dict[str, Any]:
        """The request's body, but for the model."""
        body: dict[str, Any] = {"messages": self._messages(messages), self.limit_field: max_tokens}
        if temperature is not None and self.temperature:
            body["temperature"] = temperature
        named = {"name": "action", "strict": True}
        if self.response_format == "json_schema":
            body["response_format"] = {"type": "json_schema", "json_schema": {**named, "schema": dict(schema)}}
        elif self.response_format == "json_object":
            body["response_format"] = {"type": "json_object"}
        elif self.response_format == "tools":
            body["tools"] = [{"type": "function", "function": {**named, "parameters": dict(schema)}}]
        return body

    def less(self, status: int, refusal: str) -> Wire | None:
        """What to ask for after `status` with the text `refusal`; None where nothing less would help."""
        if _ABOUT_LENGTH.search(refusal) or not (status in _REQUEST_STATUSES or _ABOUT_SHAPE.search(refusal)):
            return None
        if self.limit_field == "max_tokens" and "max_completion_tokens" in refusal:
            return replace(self, limit_field="max_completion_tokens")
        if self.temperature and "temperature" in refusal:
            return replace(self, temperature=False)
        if self.system_role != "user" and re.search(r"system\W+role|role\W+system|'system'", refusal, re.IGNORECASE):
            further = self.system_role == "developer" or "developer" not in refusal
            return replace(self, system_role="user" if further else "developer")
        format_ = _LESS.get(self.response_format)
        return replace(self, response_format=format_) if format_ is not None else None

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, str]]:
        plain = [dict(message) for message in messages]
        if self.system_role == "user" and len(plain) > 1 and plain[0]["role"] == "system":
            first, second, *rest = plain
            return [{"role": "user", "content": f"{first['content']}\n\n{second['content']}"}, *rest]
        return [{**m, "role": self.system_role} if m["role"] == "system" else m for m in plain]
