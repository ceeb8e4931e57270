"""Seats: what every step needs of the running sequences, one row of arrays each, so that no step loops over them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.sequence import NO_SEAT, Sequence

__all__ = ["Index", "Seats"]

Index = NDArray[np.int64]


class Seats:
    """Rows for at most `num_seats` running sequences.

    A token that is being computed on the device has its place already (`num_tokens` counts it) and no value yet.
    """

    def __init__(self, num_seats: int, max_model_len: int, block_size: int) -> None:
        self.block_size = block_size
        self.token_ids = np.zeros((num_seats, max_model_len), np.int32)
        self.block_table = np.zeros((num_seats, -(-max_model_len // block_size)), np.int32)

        def counts() -> Index:
            return np.zeros(num_seats, np.int64)

        self.num_tokens = counts()
        "Known tokens and one that is being computed."
        self.num_computed = counts()
        "Tokens whose keys and values are in the cache, or will be before the next step reads it."
        self.num_blocks = counts()
        self.num_registered = counts()
        "Blocks that the prefix cache knows."
        self.num_in_flight = counts()
        "Steps that have been launched and whose tokens aren't known yet."
        self.num_pending = counts()
        "Tokens with a place and no value yet."
        self.num_prompt = counts()
        self.num_recomputed = counts()
        "Tokens below this had been computed once before a preemption."
        self.max_total = counts()
        "Tokens at which max_tokens is reached."
        self.min_total = counts()
        self.seed = np.zeros(num_seats, np.uint64)
        self.temperature = np.zeros(num_seats, np.float32)
        self.top_k = counts()
        self.top_p = np.ones(num_seats, np.float32)
        self.min_p = np.zeros(num_seats, np.float32)
        self.ignores_eos = np.zeros(num_seats, bool)
        self.has_stop_ids = np.zeros(num_seats, bool)
        self.wants_logprobs = np.zeros(num_seats, bool)
        self.wants_prompt_logprobs = np.zeros(num_seats, bool)
        self.edits_logits = np.zeros(num_seats, bool)
        self.deadline_s = np.full(num_seats, math.inf)
        self.last_token_s = np.zeros(num_seats)
        self.sitting: list[Sequence | None] = [None] * num_seats
        self._vacant = list(range(num_seats))[::-1]

    @property
    def num_vacant(self) -> int:
        return len(self._vacant)

    def sit(self, sequence: Sequence) -> int:
        """Give `sequence` a row: its tokens, nothing computed, no blocks."""
        seat = sequence.seat = self._vacant.pop()
        self.sitting[seat] = sequence
        params, count = sequence.params, len(sequence.token_ids)
        self.token_ids[seat, :count] = sequence.token_ids
        self.num_tokens[seat] = count
        for counter in (self.num_computed, self.num_blocks, self.num_registered, self.num_in_flight, self.num_pending):
            counter[seat] = 0
        self.num_prompt[seat] = sequence.num_prompt_tokens
        self.num_recomputed[seat] = sequence.num_computed_before
        self.max_total[seat] = sequence.num_prompt_tokens + params.max_tokens
        self.min_total[seat] = sequence.num_prompt_tokens + params.min_tokens
        self.seed[seat] = sequence.seed
        self.temperature[seat] = params.temperature
        self.top_k[seat] = max(0, params.top_k)
        self.top_p[seat] = params.top_p
        self.min_p[seat] = params.min_p
        self.ignores_eos[seat] = params.ignore_eos
        self.has_stop_ids[seat] = bool(params.stop_token_ids)
        self.wants_logprobs[seat] = params.logprobs is not None
        self.wants_prompt_logprobs[seat] = params.prompt_logprobs is not None
        self.edits_logits[seat] = params.edits_logits
        self.deadline_s[seat] = sequence.deadline_s
        self.last_token_s[seat] = sequence.last_token_s
        return seat

    def rise(self, sequence: Sequence) -> None:
        """`sequence` gives its row up and keeps its known tokens."""
        seat = sequence.seat
        sequence.token_ids = self.tokens(seat).copy()
        sequence.last_token_s = float(self.last_token_s[seat])
        self.deadline_s[seat] = math.inf
        self.sitting[seat] = None
        self._vacant.append(seat)
        sequence.seat = NO_SEAT

    def tokens(self, seat: int) -> NDArray[np.int32]:
        """Known tokens of a row, as a view."""
        return self.token_ids[seat, : self.num_tokens[seat]]

    def blocks(self, seat: int) -> list[int]:
        found: list[int] = self.block_table[seat, : self.num_blocks[seat]].tolist()
        return found

    def give_blocks(self, seat: int, blocks: list[int]) -> None:
        held = int(self.num_blocks[seat])
        self.block_table[seat, held : held + len(blocks)] = blocks
        self.num_blocks[seat] = held + len(blocks)

    def take_blocks(self, seat: int) -> list[int]:
        """The blocks of a row, which no longer has any."""
        blocks = self.blocks(seat)
        self.num_blocks[seat] = 0
        return blocks
