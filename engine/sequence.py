"""Sequence: one request on its way through the engine."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Literal

from engine.block_pool import chain_hash
from engine.sampling import SamplingParams

__all__ = ["FinishReason", "Sequence"]

FinishReason = Literal["stop", "length", "abort"]


@dataclass(eq=False)
class Sequence:
    """Tokens known and tokens computed; everything the scheduler decides follows from these two counts.

    A prompt being read, a token being generated, a prefix found in the cache and a recomputation after preemption are
    all the same: `num_computed_tokens` runs after `num_tokens`.
    """

    request_id: str
    token_ids: array[int]
    "Prompt, then output; int32."
    params: SamplingParams
    block_size: int
    num_prompt_tokens: int = field(init=False)
    num_computed_tokens: int = 0
    block_table: array[int] = field(default_factory=lambda: array("i"))
    "Blocks that hold the computed tokens, and room for those known but not yet computed."
    block_hashes: list[bytes] = field(default_factory=list)
    "Chained hash of each whole block of `token_ids`, as far as they were asked for."
    num_registered_blocks: int = 0
    num_cached_tokens: int = 0
    "Prompt tokens found in the prefix cache when the sequence was first admitted."
    num_preemptions: int = 0
    finish_reason: FinishReason | None = None

    def __post_init__(self) -> None:
        self.num_prompt_tokens = len(self.token_ids)

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def num_uncomputed_tokens(self) -> int:
        return len(self.token_ids) - self.num_computed_tokens

    @property
    def output_ids(self) -> array[int]:
        return self.token_ids[self.num_prompt_tokens :]

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks still to be allocated before `num_tokens` tokens have room."""
        return max(0, -(-num_tokens // self.block_size) - len(self.block_table))

    def hashes(self, num_blocks: int) -> list[bytes]:
        """Chained hashes of the first `num_blocks` whole blocks, each computed once."""
        size = self.block_size
        while len(self.block_hashes) < num_blocks:
            start = len(self.block_hashes) * size
            parent = self.block_hashes[-1] if self.block_hashes else b""
            self.block_hashes.append(chain_hash(parent, self.token_ids[start : start + size]))
        return self.block_hashes[:num_blocks]
