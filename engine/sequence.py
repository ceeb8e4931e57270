"""Sequence: one request on its way through the engine."""

from __future__ import annotations

import math
from collections.abc import Sequence as ReadOnlyList
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.block_pool import chain_hash
from engine.delta import FinishReason
from engine.logprobs import TokenLogprobs
from engine.sampling import SamplingParams

__all__ = ["Sequence"]

NO_SEAT = -1


@dataclass(eq=False, slots=True)
class Sequence:
    """What is known of a request. While it runs, its counts and tokens lie in `Seats`, at row `seat`.

    A prompt being read, a token being generated, a prefix found in the cache and a recomputation after preemption are
    all the same: computed tokens run after known ones.
    """

    request_id: str
    token_ids: NDArray[np.int32]
    "Prompt and output, while it waits; what it began to run with, after."
    params: SamplingParams
    arrived_s: float = 0.0
    priority: int = 0
    "Lower goes first."
    deadline_s: float = math.inf
    "On the monotonic clock, as are all times here."
    seed: int = 0
    "Of its random numbers; 64 bits, never negative."
    arrival: int = 0
    "Number of the request: first come, first served among equal priorities."
    num_prompt_tokens: int = field(init=False)
    seat: int = NO_SEAT
    block_hashes: list[bytes] = field(default_factory=list)
    "Chained hash of each whole block, as far as they were asked for."
    num_cached_tokens: int = 0
    "Prompt tokens found in the prefix cache when the sequence was first admitted."
    num_computed_before: int = 0
    "Tokens that had been computed when it was last preempted: computing them again is waste."
    num_preemptions: int = 0
    prompt_logprobs: list[TokenLogprobs | None] = field(default_factory=list)
    scheduled_s: float = 0.0
    first_token_s: float = 0.0
    last_token_s: float = 0.0
    finish_reason: FinishReason | None = None

    def __post_init__(self) -> None:
        self.token_ids = np.asarray(self.token_ids, np.int32)
        self.num_prompt_tokens = len(self.token_ids)

    @property
    def rank(self) -> tuple[int, int]:
        """Who goes first."""
        return self.priority, self.arrival

    @property
    def uses_prefix_cache(self) -> bool:
        """Whoever wants log-probabilities of its prompt needs the prompt computed."""
        return self.params.prompt_logprobs is None

    def hashes(self, token_ids: NDArray[np.int32], num_blocks: int, block_size: int) -> ReadOnlyList[bytes]:
        """Chained hashes of the first `num_blocks` whole blocks of its `token_ids`, each computed once."""
        known = self.block_hashes
        for index in range(len(known), num_blocks):
            tokens = token_ids[index * block_size : (index + 1) * block_size]
            known.append(chain_hash(known[-1] if known else b"", tokens.tobytes()))
        return known[:num_blocks]
