"""RequestRecord: what the client saw of one request, raw. Everything else is derived from these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["Outcome", "RequestRecord", "TokenSource"]

Outcome = Literal["ok", "failed", "timed_out"]
TokenSource = Literal["usage", "token_ids", "chunks"]


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request. Times are seconds on the monotonic clock since the trial's start; None where it never happened."""

    index: int
    scheduled_s: float
    "When the arrival schedule wanted it sent."
    sent_s: float
    "Just before the request was handed to the socket."
    outcome: Outcome
    end_s: float
    "When the answer was complete, refused or given up."
    http_status: int | None = None
    error: str = ""
    first_chunk_s: float | None = None
    "First SSE payload of any kind, a role-only chunk too."
    token_times_s: tuple[float, ...] = ()
    "One stamp per token-bearing chunk, taken before the chunk was parsed."
    token_counts: tuple[int, ...] = ()
    "Tokens in each of those chunks; sums to output_tokens. Empty where the server tells only the total."
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    "Prompt tokens the server says it took from its prefix cache."
    token_source: TokenSource = "chunks"
    "Where output_tokens comes from; `chunks` is a count of chunks and no token count."
    token_ids: tuple[int, ...] = ()
    "Ids of the output tokens where the server tells them."
    finish_reason: str | None = None
    conversation: int | None = None
    turn: int = 0
    "Place in its conversation, from 0."
    clock_skew_s: float | None = None
    "How far the server's clock was ahead of the client's, by its Date header; None where it sent none."

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RequestRecord:
        tuples = {name: tuple(data[name]) for name in ("token_times_s", "token_counts", "token_ids")}
        return cls(**{**data, **tuples})
