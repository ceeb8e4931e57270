"""LoggedRequest: what is kept of a request in somebody's log: a moment, lengths, and which blocks it shares."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["BadLine", "LoggedRequest", "TraceLog"]


class BadLine(Exception):
    """A line that can't be read; the message says what was expected and found, and quotes no text of a prompt."""


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request. No text: `blocks` are numbers that are equal where (and only where) prompts begin alike."""

    at_s: float
    "When it arrived, in seconds; from the log's first request once the log is read."
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] | None = None
    """One number per whole block of the prompt that is known. A block's number stands for the block *and all before
    it*, so two prompts share exactly as many tokens as they have leading numbers in common. None: the log tells
    nothing of the prompts' contents."""
    block_tokens: int = 16
    duration_s: float | None = None
    "From its arrival to its last token; None where the log doesn't tell."
    session: str | None = None
    "The log's own word for which requests belong together."


@dataclass(frozen=True)
class TraceLog:
    """A log, read: its requests in order of arrival and what was left out on the way."""

    path: Path
    format: str
    requests: tuple[LoggedRequest, ...]
    lines: int
    "Lines of the file, empty ones not counted."
    bad: int
    "Lines that couldn't be read."
    bad_examples: tuple[str, ...]
    "The first of them: line number and reason."
    left_out: Counter[str] = field(default_factory=Counter)
    "Requests left out for a reason that is no fault of the file (failed ones, say), by reason."
    notes: tuple[str, ...] = ()
    "What a reader of the figures has to know."

    @property
    def block_tokens(self) -> int:
        return self.requests[0].block_tokens

    @property
    def span_s(self) -> float:
        """From the first arrival to the last."""
        return self.requests[-1].at_s - self.requests[0].at_s
