"""Scheduler: which tokens of which sequences the next step computes."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.block_pool import BlockPool, PoolError
from engine.knobs import EngineKnobs
from engine.sequence import FinishReason, Sequence

__all__ = ["Schedule", "Scheduled", "Scheduler"]


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The next `num_tokens` uncomputed tokens of `sequence`."""

    sequence: Sequence
    num_tokens: int

    @property
    def yields_token(self) -> bool:
        """Whether the step computes the last known token, and so the next one can be sampled."""
        return self.num_tokens == self.sequence.num_uncomputed_tokens


@dataclass(slots=True)
class Schedule:
    """One step, and what had to give way for it."""

    scheduled: list[Scheduled] = field(default_factory=list)
    admitted: list[Sequence] = field(default_factory=list)
    "Those that have never run before."
    preempted: list[Sequence] = field(default_factory=list)

    @property
    def num_tokens(self) -> int:
        return sum(item.num_tokens for item in self.scheduled)


class Scheduler:
    """First come, first served, without phases: every sequence's computed tokens chase its known ones.

    A running sequence that finds no free block takes them from the latest arrival, which goes back to the head of the
    queue and is recomputed (from the prefix cache where it can). The oldest can take from all others, and the pool
    holds at least one sequence of full length, so something always advances.
    """

    def __init__(self, knobs: EngineKnobs, pool: BlockPool) -> None:
        self.pool = pool
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self._knobs = knobs

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    def __iter__(self) -> Iterator[Sequence]:
        """Every sequence that hasn't finished, running ones first."""
        yield from self.running
        yield from self.waiting

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def schedule(self) -> Schedule:
        step = Schedule()
        budget = self._knobs.max_num_batched_tokens
        budget = self._advance_running(step, budget)
        if not step.preempted:
            self._admit_waiting(step, budget)
        return step

    def commit(self, step: Schedule) -> None:
        """The step has been computed: its tokens count as such, and whole blocks can be found from now on.

        Not earlier: a block that is still being computed must not be another sequence's prefix.
        """
        for item in step.scheduled:
            sequence = item.sequence
            sequence.num_computed_tokens += item.num_tokens
            if self._knobs.enable_prefix_caching:
                self._register(sequence)

    def finish(self, sequence: Sequence, reason: FinishReason) -> None:
        """`sequence` leaves, wherever it is, and its blocks are freed. One that has left already is left alone."""
        if sequence.finish_reason is not None:
            return
        sequence.finish_reason = reason
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)
        self._release(sequence)

    def check(self) -> None:
        """The books balance.

        Raises:
            PoolError: a block is lost, shared wrongly or freed twice; or a sequence has more computed than it can hold.
        """
        self.pool.check([sequence.block_table for sequence in self.running])
        for sequence in self.waiting:
            if sequence.block_table or sequence.num_computed_tokens:
                raise PoolError(f"waiting {sequence.request_id} holds blocks")
        for sequence in self.running:
            room = len(sequence.block_table) * sequence.block_size
            if not sequence.num_computed_tokens <= min(room, sequence.num_tokens):
                raise PoolError(f"{sequence.request_id} has computed tokens outside its blocks")

    def _advance_running(self, step: Schedule, budget: int) -> int:
        index = 0
        while index < len(self.running) and budget:
            sequence = self.running[index]
            want = self._wanted(sequence, budget)
            if self._make_room(step, sequence, want):
                step.scheduled.append(Scheduled(sequence, want))
                budget -= want
                index += 1
        return budget

    def _make_room(self, step: Schedule, sequence: Sequence, want: int) -> bool:
        """Blocks for `want` more tokens, taken from later arrivals if need be; False if it had to go itself."""
        needed = sequence.blocks_for(sequence.num_computed_tokens + want)
        while needed > self.pool.num_free:
            victim = self.running.pop()
            self._preempt(step, victim)
            if victim is sequence:
                return False
        sequence.block_table.extend(self.pool.allocate(needed))
        return True

    def _preempt(self, step: Schedule, victim: Sequence) -> None:
        self._release(victim)
        victim.num_computed_tokens = 0
        victim.num_registered_blocks = 0
        victim.num_preemptions += 1
        self.waiting.appendleft(victim)
        step.preempted.append(victim)

    def _admit_waiting(self, step: Schedule, budget: int) -> None:
        while self.waiting and budget and len(self.running) < self._knobs.max_num_seqs:
            sequence = self.waiting[0]
            prefix = self._known_prefix(sequence)
            # Room for all of its known tokens at once, or it would be admitted only to be preempted a few chunks later.
            needed = sequence.blocks_for(sequence.num_tokens) - len(prefix)
            if needed > self.pool.num_free_without(prefix):
                break
            self.pool.share(prefix)
            sequence.block_table.extend(prefix)
            sequence.block_table.extend(self.pool.allocate(needed))
            sequence.num_registered_blocks = len(prefix)
            sequence.num_computed_tokens = len(prefix) * sequence.block_size
            want = self._wanted(sequence, budget)
            if not sequence.num_preemptions:
                sequence.num_cached_tokens = sequence.num_computed_tokens
                step.admitted.append(sequence)
            self.running.append(self.waiting.popleft())
            step.scheduled.append(Scheduled(sequence, want))
            budget -= want

    def _known_prefix(self, sequence: Sequence) -> list[int]:
        """Cached blocks of its tokens but the last: that one must be computed, for its logits are the next token."""
        if not self._knobs.enable_prefix_caching:
            return []
        return self.pool.find(sequence.hashes((sequence.num_tokens - 1) // sequence.block_size))

    def _wanted(self, sequence: Sequence, budget: int) -> int:
        limit = self._knobs.long_prefill_token_threshold or budget
        return min(sequence.num_uncomputed_tokens, budget, limit)

    def _register(self, sequence: Sequence) -> None:
        whole = sequence.num_computed_tokens // sequence.block_size
        if whole > sequence.num_registered_blocks:
            hashes = sequence.hashes(whole)
            for index in range(sequence.num_registered_blocks, whole):
                self.pool.register(sequence.block_table[index], hashes[index])
            sequence.num_registered_blocks = whole

    def _release(self, sequence: Sequence) -> None:
        self.pool.release(sequence.block_table)
        sequence.block_table = array("i")
