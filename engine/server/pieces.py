"""What the text side hands to the shapes, and the small parts of the JSON that all answers share."""

from __future__ import annotations

from collections.abc import Sequence as ReadOnlyList
from dataclasses import dataclass
from typing import Any

import orjson

from engine.logprobs import TokenLogprobs

__all__ = ["Json", "Piece", "Wording", "error_body", "event", "usage"]

Json = dict[str, Any]


@dataclass(slots=True)
class Piece:
    """What a step added to one choice, or all that a choice is."""

    text: str
    token_ids: tuple[int, ...] = ()
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    "The stop string or token that ended the answer."
    logprobs: tuple[TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs | None, ...] = ()
    prompt_ids: ReadOnlyList[int] | None = None
    "On the first piece of a choice."
    deltas: list[Json] | None = None
    "What a tool call parser made of the text; None where there is no parser."

    @property
    def is_plain(self) -> bool:
        """Text from the middle of an answer, and nothing else."""
        return (
            self.finish_reason is None
            and self.prompt_ids is None
            and not self.logprobs
            and self.deltas is None
            and not self.prompt_logprobs
        )


@dataclass(frozen=True, slots=True)
class Wording:
    """What all answers to one request have in common."""

    answer_id: str
    model: str
    created: int
    "Unix time in seconds."
    with_ids: bool = False
    "Choices and chunks carry token ids."
    names_ids: bool = False
    "Log-probabilities name tokens as token_id:N."
    with_usage: bool = False
    "Chunks have a usage, null where it isn't told yet."


def usage(prompt_tokens: int, completion_tokens: int, cached_tokens: int) -> Json:
    """Counts in tokens; `cached_tokens` of the prompt came from the prefix cache."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
    }


def error_body(sentence: str, *, status: int, code: str, param: str | None) -> Json:
    """OpenAI's error object."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": sentence, "type": kind, "param": param, "code": code}}


def event(data: Json) -> bytes:
    return b"data: " + orjson.dumps(data) + b"\n\n"
