"""Scheduler: which tokens of which sequences the next step computes."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.block_pool import BlockPool, PoolError
from engine.delta import FinishReason
from engine.knobs import EngineKnobs
from engine.seats import Index, Seats
from engine.sequence import Sequence
from engine.waiting import WaitingQueue

__all__ = ["Scheduler", "Step"]

EMPTY = np.empty(0, np.int64)


@dataclass(slots=True)
class Step:
    """The next `count` uncomputed tokens of the sequence in each of `seats`; those with one token come first."""

    seats: Index = field(default_factory=lambda: EMPTY)
    first: Index = field(default_factory=lambda: EMPTY)
    "Position of the first token to compute."
    count: Index = field(default_factory=lambda: EMPTY)
    yields: NDArray[np.bool_] = field(default_factory=lambda: EMPTY.astype(bool))
    "Whether the last known token is computed, and so the next one can be chosen."
    admitted: list[Sequence] = field(default_factory=list)
    "Those that have never run before."
    preempted: list[Sequence] = field(default_factory=list)

    @property
    def num_tokens(self) -> int:
        return int(self.count.sum())

    @property
    def num_sequences(self) -> int:
        return len(self.seats)


class Scheduler:
    """Best rank first, without phases: every sequence's computed tokens chase its known ones.

    A running sequence that finds no free block takes them from one of worse rank, which goes back to the queue and is
    recomputed (from the prefix cache where it can). The best can take from all others, and the pool holds at least one
    sequence of full length, so something always advances.

    A step is scheduled, launched (its tokens have places, but no values) and settled (they have). With one step
    launched the next may be scheduled, unless that must know the tokens, or free the blocks, of the first.
    """

    def __init__(self, knobs: EngineKnobs, pool: BlockPool) -> None:
        self.pool = pool
        self.seats = Seats(knobs.max_num_seqs, knobs.max_model_len, knobs.block_size)
        self.waiting = WaitingQueue()
        self.running: list[Sequence] = []
        "By rank."
        self._knobs = knobs
        self._order: Index | None = None
        self._leaving: list[Sequence] = []
        "Over, but in a step that is still being computed."
        self._arrivals = 0

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running or self._leaving)

    def __iter__(self) -> Iterator[Sequence]:
        """Every sequence that hasn't finished, running ones first."""
        yield from self.running
        yield from self.waiting

    def add(self, sequence: Sequence) -> None:
        sequence.arrival = self._arrivals
        self._arrivals += 1
        self.waiting.push(sequence)

    def schedule(self) -> Step | None:
        """The next step, maybe an empty one; None where the launched one must be settled first."""
        step, seats, order = Step(), self.seats, self._ordered()
        wanted = seats.num_tokens[order] - seats.num_computed[order]
        # Whose last token is being computed has nothing left to compute.
        wanted[seats.num_tokens[order] >= seats.max_total[order]] = 0
        wanted = self._within_budget(wanted)
        needed = -(-(seats.num_computed[order] + wanted) // seats.block_size) - seats.num_blocks[order]
        needed[wanted == 0] = 0
        np.maximum(needed, 0, out=needed)
        if seats.num_in_flight[order].any() and (
            needed.sum() > self.pool.num_free or seats.edits_logits[order].any() or self._leaving
        ):
            return None
        kept = self._make_room(step, order, needed)
        order, wanted = order[kept & (wanted > 0)], wanted[kept & (wanted > 0)]
        if not step.preempted:
            order, wanted = self._admit(step, order, wanted)
        self._fill(step, order, wanted)
        return step

    def launch(self, step: Step) -> None:
        """The step is being computed: its tokens count as such, and the next ones have a place."""
        seats = self.seats
        seats.num_computed[step.seats] += step.count
        seats.num_in_flight[step.seats] += 1
        yielding = step.seats[step.yields]
        seats.num_tokens[yielding] += 1
        seats.num_pending[yielding] += 1

    def settle(self, step: Step, token_ids: Index) -> None:
        """The step has been computed, and `token_ids` are what its yielding sequences say next.

        Whole blocks can be found from now on, not earlier: a block that is still being computed must not be another
        sequence's prefix.
        """
        seats = self.seats
        yielding = step.seats[step.yields]
        seats.token_ids[yielding, step.first[step.yields] + step.count[step.yields]] = token_ids
        seats.num_pending[yielding] -= 1
        seats.num_in_flight[step.seats] -= 1
        if self._knobs.enable_prefix_caching:
            whole = (step.first + step.count) // seats.block_size
            for index in np.flatnonzero(whole > seats.num_registered[step.seats]):
                self._register(int(step.seats[index]), int(whole[index]))
        if self._leaving:
            leaving, self._leaving = self._leaving, []
            for sequence in leaving:
                self._release(sequence)

    def finish(self, sequence: Sequence, reason: FinishReason) -> None:
        """`sequence` leaves, wherever it is, and its blocks are freed. One that has left already is left alone."""
        if sequence.finish_reason is not None:
            return
        sequence.finish_reason = reason
        if sequence.seat < 0:
            self.waiting.discard(sequence)
            return
        self._leave_running(sequence)
        self._release(sequence)

    def expired(self, now_s: float) -> list[Sequence]:
        """Sequences whose deadline has passed."""
        late = np.flatnonzero(self.seats.deadline_s <= now_s)
        running = [sequence for seat in late if (sequence := self.seats.sitting[seat]) and not sequence.finish_reason]
        return running + self.waiting.expired(now_s)

    def check(self) -> None:
        """The books balance.

        Raises:
            PoolError: a block is lost, shared wrongly or freed twice; or a sequence has more computed than it can hold.
        """
        seats = self.seats
        sitting = [sequence for sequence in seats.sitting if sequence is not None]
        self.pool.check([seats.blocks(sequence.seat) for sequence in sitting])
        if {id(s) for s in sitting} != {id(s) for s in self.running + self._leaving}:
            raise PoolError("a seat is held by a sequence that neither runs nor leaves")
        if len(sitting) + seats.num_vacant != len(seats.sitting):
            raise PoolError(f"{len(sitting)} taken + {seats.num_vacant} vacant seats of {len(seats.sitting)}")
        for sequence in self.running:
            room = int(seats.num_blocks[sequence.seat]) * seats.block_size
            if not seats.num_computed[sequence.seat] <= min(room, seats.num_tokens[sequence.seat]):
                raise PoolError(f"{sequence.request_id} has computed tokens outside its blocks")

    def _ordered(self) -> Index:
        """Seats of the running sequences, by rank."""
        if self._order is None:
            self._order = np.array([sequence.seat for sequence in self.running], np.int64)
        return self._order

    def _within_budget(self, wanted: Index) -> Index:
        budget = self._knobs.max_num_batched_tokens
        wanted = np.minimum(wanted, self._knobs.long_prefill_token_threshold or budget)
        before = wanted.cumsum() - wanted
        return np.clip(budget - before, 0, wanted)

    def _make_room(self, step: Step, order: Index, needed: Index) -> NDArray[np.bool_]:
        """Give each of `order` the blocks it needs, at the cost of worse ranks; who of them still runs."""
        kept = np.ones(len(order), bool)
        for index in np.flatnonzero(needed):
            while kept[index] and needed[index] > self.pool.num_free:
                victim = self._victim(order, kept, int(index))
                kept[victim] = False
                self._preempt(step, int(order[victim]))
            if kept[index]:
                self.seats.give_blocks(int(order[index]), self.pool.allocate(int(needed[index])))
        return kept

    def _victim(self, order: Index, kept: NDArray[np.bool_], needy: int) -> int:
        """Who of worse rank than `needy` goes: the last, or whoever has least to compute again. Else itself."""
        worse = np.flatnonzero(kept[needy + 1 :]) + needy + 1
        if not len(worse):
            return needy
        if self._knobs.preemption_victim == "cheapest":
            return int(worse[::-1][self.seats.num_computed[order[worse[::-1]]].argmin()])
        return int(worse[-1])

    def _preempt(self, step: Step, seat: int) -> None:
        sequence = self.seats.sitting[seat]
        assert sequence is not None
        sequence.num_computed_before = max(sequence.num_computed_before, int(self.seats.num_computed[seat]))
        sequence.num_preemptions += 1
        self._leave_running(sequence)
        self._release(sequence)
        self.waiting.push(sequence)
        step.preempted.append(sequence)

    def _admit(self, step: Step, order: Index, wanted: Index) -> tuple[Index, Index]:
        """Let in whoever is first while there is a seat, budget and room."""
        seats, budget = self.seats, self._knobs.max_num_batched_tokens - int(wanted.sum())
        new_seats, new_wanted = [], []
        while budget and seats.num_vacant and (sequence := self.waiting.first()):
            known = len(sequence.token_ids)
            prefix = self._known_prefix(sequence)
            # Room for all of its known tokens at once, or it would be admitted only to be preempted a few chunks later.
            needed = -(-known // seats.block_size) - len(prefix)
            if needed > self.pool.num_free_without(prefix):
                break
            self.waiting.discard(sequence)
            self.pool.share(prefix)
            seat = seats.sit(sequence)
            seats.give_blocks(seat, prefix + self.pool.allocate(needed))
            cached = len(prefix) * seats.block_size
            seats.num_registered[seat], seats.num_computed[seat] = len(prefix), cached
            if not sequence.num_preemptions:
                sequence.num_cached_tokens = cached
                step.admitted.append(sequence)
            bisect.insort(self.running, sequence, key=lambda s: s.rank)
            self._order = None
            count = min(known - cached, budget, self._knobs.long_prefill_token_threshold or budget)
            budget -= count
            new_seats.append(seat)
            new_wanted.append(count)
        return np.append(order, np.array(new_seats, np.int64)), np.append(wanted, np.array(new_wanted, np.int64))

    def _fill(self, step: Step, order: Index, wanted: Index) -> None:
        single_first = np.argsort(wanted > 1, kind="stable")
        step.seats, step.count = order[single_first], wanted[single_first]
        step.first = self.seats.num_computed[step.seats]
        step.yields = step.first + step.count == self.seats.num_tokens[step.seats]

    def _known_prefix(self, sequence: Sequence) -> list[int]:
        """Cached blocks of its tokens but the last: that one must be computed, for its logits are the next token."""
        if not self._knobs.enable_prefix_caching or not sequence.uses_prefix_cache:
            return []
        size = self.seats.block_size
        whole = (len(sequence.token_ids) - 1) // size
        return self.pool.find(sequence.hashes(sequence.token_ids, whole, size))

    def _register(self, seat: int, whole: int) -> None:
        seats, sequence = self.seats, self.seats.sitting[seat]
        if sequence is None:
            return
        hashes = sequence.hashes(seats.token_ids[seat], whole, seats.block_size)
        for index in range(int(seats.num_registered[seat]), whole):
            self.pool.register(int(seats.block_table[seat, index]), hashes[index])
        seats.num_registered[seat] = whole

    def _leave_running(self, sequence: Sequence) -> None:
        del self.running[bisect.bisect_left(self.running, sequence.rank, key=lambda s: s.rank)]
        self._order = None

    def _release(self, sequence: Sequence) -> None:
        """Blocks and seat of `sequence`, once no step computes it any more."""
        if self.seats.num_in_flight[sequence.seat]:
            self._leaving.append(sequence)
            return
        blocks = self.seats.take_blocks(sequence.seat)
        if sequence.finish_reason == "error":
            self.pool.condemn(blocks)
        self.pool.release(blocks)
        self.seats.rise(sequence)
