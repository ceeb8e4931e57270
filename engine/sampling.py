"""SamplingParams: how a request wants its tokens chosen, and when it wants to stop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import RequestRefused

if TYPE_CHECKING:
    from engine.grammar import Grammar

__all__ = ["MAX_LOGPROBS", "SamplingParams"]

MAX_LOGPROBS = 20
"""Most alternatives per token that a request may ask for, as OpenAI has it."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Names and meanings are OpenAI's and vLLM's."""

    max_tokens: int = 16
    min_tokens: int = 0
    "Neither an end of text nor a stop token is chosen before this many."
    temperature: float = 1.0
    "0: always the most likely token, the lowest id among equals."
    top_p: float = 1.0
    "Sample from the fewest tokens whose probabilities reach this sum."
    top_k: int = 0
    "Sample from this many most likely tokens; 0 or -1: from all."
    min_p: float = 0.0
    "Sample from tokens at least this likely, as a share of the most likely one."
    seed: int | None = None
    "The same seed, prompt and config give the same answer, whatever else runs beside it."
    presence_penalty: float = 0.0
    "Taken from the logit of every token the answer holds."
    frequency_penalty: float = 0.0
    "Taken from the logit of a token once for each time the answer holds it."
    repetition_penalty: float = 1.0
    "Divides a positive logit, multiplies a negative one, of every token that prompt or answer hold (arXiv 1909.05858)."
    logit_bias: tuple[tuple[int, float], ...] = ()
    "Added to the logits of these token ids."
    stop: tuple[str, ...] = ()
    "The answer ends before the first of these to be complete. Text is the server's: the engine doesn't look at it."
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    "Go on to max_tokens, past the model's end of text: for benchmarks."
    logprobs: int | None = None
    "Log-probabilities of each token of the answer, and of this many most likely ones. None: none."
    prompt_logprobs: int | None = None
    "The same for the prompt. Such a prompt is computed whole, past any cached prefix."
    grammar: Grammar | None = None
    "What the answer must be derivable from."

    def __post_init__(self) -> None:
        need = self._require
        need(self.max_tokens >= 1, "max_tokens", "1 or more", self.max_tokens)
        need(0 <= self.min_tokens <= self.max_tokens, "min_tokens", "0 to max_tokens", self.min_tokens)
        need(math.isfinite(self.temperature) and 0 <= self.temperature <= 2, "temperature", "0 to 2", self.temperature)
        need(0 < self.top_p <= 1, "top_p", "more than 0 and at most 1", self.top_p)
        need(-1 <= self.top_k < 2**31, "top_k", "-1, 0 or a count", self.top_k)
        need(0 <= self.min_p <= 1, "min_p", "0 to 1", self.min_p)
        need(self.seed is None or -(2**63) <= self.seed < 2**63, "seed", "a 64-bit integer", self.seed)
        need(abs(self.presence_penalty) <= 2, "presence_penalty", "-2 to 2", self.presence_penalty)
        need(abs(self.frequency_penalty) <= 2, "frequency_penalty", "-2 to 2", self.frequency_penalty)
        need(0 < self.repetition_penalty <= 10, "repetition_penalty", "over 0, at most 10", self.repetition_penalty)
        biases = dict(self.logit_bias)
        need(all(abs(bias) <= 100 for bias in biases.values()), "logit_bias", "values from -100 to 100", biases)
        need(len(self.stop) <= 16 and all(self.stop), "stop", "at most 16 strings, none empty", list(self.stop))
        for name in ("logprobs", "prompt_logprobs"):
            count = getattr(self, name)
            need(count is None or 0 <= count <= MAX_LOGPROBS, name, f"0 to {MAX_LOGPROBS}", count)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    @property
    def edits_logits(self) -> bool:
        """Whether logits are changed before a token is chosen, so that what was said so far must be known."""
        return bool(
            self.presence_penalty
            or self.frequency_penalty
            or self.repetition_penalty != 1
            or self.logit_bias
            or self.min_tokens
            or self.grammar
        )

    def _require(self, holds: bool, param: str, expected: str, found: object) -> None:
        if not holds:
            raise RequestRefused(f"{param}: expected {expected}, found {found!r}", param=param)
