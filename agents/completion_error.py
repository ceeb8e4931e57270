"""What can go wrong between a question to a model and an answer that can be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.usage import Usage
from tools.redaction import redacted

if TYPE_CHECKING:
    from agents.wire import Wire

__all__ = ["CompletionError", "CutPrompt", "Malformed", "Refused", "Transport", "Truncated", "quoted"]

_QUOTED_CHARS = 200


class CompletionError(Exception):
    """No answer that can be used. `usage` is what it cost nevertheless, `text` what was answered."""

    wire: Wire | None = None
    "What the endpoint took, where it took anything."

    def __init__(self, message: str, *, usage: Usage | None = None, text: str = "") -> None:
        super().__init__(quoted(redacted(message)))  # a library or a server may repeat the key
        self.usage = usage or Usage()
        self.text = text


class Transport(CompletionError):
    """Not reached, too slow, overloaded or broken, after the SDK's retries."""


class Refused(CompletionError):
    """The endpoint or the model declined: a bad key, an unknown model, a prompt too long, a content filter."""


class Truncated(CompletionError):
    """The answer ended at the token limit."""


class CutPrompt(CompletionError):
    """The endpoint read less of the prompt than it was sent, and didn't say so."""


class Malformed(CompletionError):
    """Not a chat completion, or its content is no JSON object."""


def quoted(message: str) -> str:
    """`message`, bounded: part of it is a server's own text."""
    return message if len(message) <= _QUOTED_CHARS else message[: _QUOTED_CHARS - 1] + "…"
