"""Usage: what a model's answers cost, and what of it is still allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Allowance", "Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """LLM tokens spent, as the server counts them; `estimated` where it doesn't say and characters were counted."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    "Of the prompt, as far as the server says."
    reasoning_tokens: int = 0
    "Of the completion, as far as the server says."
    calls: int = 0
    "Questions put to the model: an answer, a repair, a look at something."
    requests: int = 0
    "HTTP requests that these took, the refused and the repeated ones among them."
    estimated: bool = False
    usd: float | None = 0.0
    "None where tokens were spent at a price that nobody gave."

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.calls + other.calls,
            self.requests + other.requests,
            self.estimated or other.estimated,
            None if self.usd is None or other.usd is None else self.usd + other.usd,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Usage:
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is left for a model's answers. The harness stops at these; a proposer keeps within them during a turn."""

    tokens: int
    requests: int
    "HTTP requests, the repeated ones among them."
    usd: float | None = None
    "None: not limited."

    def less(self, usage: Usage) -> Allowance:
        """What is left after `usage`; never below nothing. A cost that isn't known uses up all the money."""
        usd = None if self.usd is None else max(0.0, self.usd - usage.usd) if usage.usd is not None else 0.0
        return Allowance(max(0, self.tokens - usage.total_tokens), max(0, self.requests - usage.requests), usd)

    @property
    def spent(self) -> str | None:
        """What is used up, in words; None while there is something of everything."""
        left = (("LLM tokens", self.tokens), ("LLM requests", self.requests), ("LLM money", self.usd))
        return next(
            (f"the budget's {name} are spent" for name, amount in left if amount is not None and amount <= 0), None
        )
