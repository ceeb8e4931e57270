"""SamplingParams: how a request wants its tokens chosen, and when it wants to stop."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.errors import RequestRefused

__all__ = ["SamplingParams"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Names and meanings are OpenAI's and vLLM's."""

    max_tokens: int = 16
    temperature: float = 1.0
    "0: always the most likely token, the lowest id among equals."
    top_p: float = 1.0
    "Sample from the fewest tokens whose probabilities reach this sum."
    top_k: int = 0
    "Sample from this many most likely tokens; 0 or -1: from all."
    seed: int | None = None
    "The same seed, prompt and config give the same answer, whatever else runs beside it."
    stop: tuple[str, ...] = ()
    "The answer ends before the first of these to be complete."
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    "Go on to max_tokens, past the model's end of text: for benchmarks."

    def __post_init__(self) -> None:
        self._require(self.max_tokens >= 1, "max_tokens", "1 or more", self.max_tokens)
        self._require(
            math.isfinite(self.temperature) and 0 <= self.temperature <= 2, "temperature", "0 to 2", self.temperature
        )
        self._require(0 < self.top_p <= 1, "top_p", "more than 0 and at most 1", self.top_p)
        self._require(self.top_k >= -1, "top_k", "-1, 0 or a count", self.top_k)
        self._require(self.seed is None or -(2**63) <= self.seed < 2**63, "seed", "a 64-bit integer", self.seed)
        self._require(
            len(self.stop) <= 16 and all(self.stop), "stop", "at most 16 strings, none empty", list(self.stop)
        )

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def _require(self, holds: bool, param: str, expected: str, found: object) -> None:
        if not holds:
            raise RequestRefused(f"{param}: expected {expected}, found {found!r}", param=param)
