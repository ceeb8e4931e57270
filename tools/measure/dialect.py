"""Dialect: which extensions of the chat completions API a server takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from tools.measure.workload import Request

__all__ = ["EXTRAS", "Dialect"]

EXTRAS: Mapping[str, Mapping[str, Any]] = {
    "return_token_ids": {"return_token_ids": True},
    "continuous_usage_stats": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    "ignore_eos": {"ignore_eos": True},
    "temperature": {"temperature": 0},
}
"""Name of each extra and the fields that ask for it, in the order in which they are given up.

The first two tell how many tokens a chunk carries; `ignore_eos` fixes the output's length; temperature 0 makes it
repeatable.
"""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The extras in force. The plain dialect has none: any OpenAI-compatible server takes it."""

    extras: tuple[str, ...] = tuple(EXTRAS)

    def body(self, request: Request, model: str) -> bytes:
        """The JSON body that asks for `request`."""
        fields: dict[str, Any] = {
            "model": model,
            "messages": list(request.messages),
            "max_tokens": request.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            # Read and not called: an answer stays an answer, of the length that was asked for.
            fields |= {"tools": list(request.tools), "tool_choice": "none"}
        for name in self.extras:
            fields |= EXTRAS[name]
        return orjson.dumps(fields)

    def without_refused(self, complaint: str) -> Dialect | None:
        """The next dialect to try after a 400 or 422: without the extra that the complaint names, else without the
        first one left. None if there is nothing left to give up."""
        if not self.extras:
            return None
        named = [name for name in self.extras if name in complaint]
        refused = named[0] if named else self.extras[0]
        return Dialect(tuple(name for name in self.extras if name != refused))
