"""The scheduler and its pool of blocks, driven at random without a model: the books balance after every step."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.block_pool import BlockPool, PoolError, chain_hash
from engine.knobs import EngineKnobs
from engine.sampling import SamplingParams
from engine.scheduler import Scheduler
from engine.sequence import Sequence


class SchedulerMachine(RuleBasedStateMachine):
    """Requests come, run, are aborted and finish, in a cache that is far too small for them together."""

    @initialize(
        blocks=st.integers(8, 24),
        max_num_seqs=st.integers(1, 6),
        budget=st.integers(16, 64),
        threshold=st.sampled_from([0, 5, 20]),
        caching=st.booleans(),
    )
    def build(self, blocks: int, max_num_seqs: int, budget: int, threshold: int, caching: bool) -> None:
        self.knobs = EngineKnobs(
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=budget,
            long_prefill_token_threshold=threshold,
            enable_prefix_caching=caching,
            block_size=8,
        )
        self.scheduler = Scheduler(self.knobs, BlockPool(blocks))
        self.capacity = blocks * 8
        self.content: dict[int, tuple[int, ...]] = {}
        self.count = 0

    @rule(prefix=st.integers(0, 2), shared=st.integers(0, 40), own=st.integers(1, 24), answer=st.integers(1, 30))
    def add(self, prefix: int, shared: int, own: int, answer: int) -> None:
        self.count += 1
        prompt = [prefix] * shared + [100 + self.count] * own
        prompt = prompt[: self.capacity - answer]
        params = SamplingParams(max_tokens=answer)
        self.scheduler.add(Sequence(str(self.count), array("i", prompt), params, 8))

    @rule()
    @precondition(lambda self: self.scheduler.has_work)
    def step(self) -> None:
        oldest = self.scheduler.running[0] if self.scheduler.running else self.scheduler.waiting[0]
        step = self.scheduler.schedule()
        assert step.num_tokens <= self.knobs.max_num_batched_tokens
        assert len(self.scheduler.running) <= self.knobs.max_num_seqs
        assert any(item.sequence is oldest for item in step.scheduled), "the oldest always advances"
        assert len({id(item.sequence) for item in step.scheduled}) == len(step.scheduled)
        assert not {id(item.sequence) for item in step.scheduled} & {id(victim) for victim in step.preempted}
        for item in step.scheduled:
            assert item.num_tokens >= 1
            self.read_and_write(item.sequence, item.num_tokens)
        self.scheduler.commit(step)
        for item in step.scheduled:
            sequence = item.sequence
            if not sequence.num_uncomputed_tokens:
                sequence.token_ids.append(1000 + sequence.num_output_tokens)
                if sequence.num_output_tokens == sequence.params.max_tokens:
                    self.scheduler.finish(sequence, "length")

    def read_and_write(self, sequence: Sequence, num_tokens: int) -> None:
        """Play the model: what is taken for computed must be there, what is written must be nobody else's."""
        known = sequence.token_ids.tolist()
        for position in range(sequence.num_computed_tokens):
            slot = sequence.block_table[position // 8] * 8 + position % 8
            assert self.content[slot] == tuple(known[: position + 1]), "the cache holds another prefix"
        users = [running.block_table for running in self.scheduler.running]
        for position in range(sequence.num_computed_tokens, sequence.num_computed_tokens + num_tokens):
            block = sequence.block_table[position // 8]
            assert sum(table.count(block) for table in users) == 1, "a block that is written is shared"
            self.content[block * 8 + position % 8] = tuple(known[: position + 1])

    @rule(which=st.integers(0, 100))
    @precondition(lambda self: self.scheduler.has_work)
    def abort(self, which: int) -> None:
        everyone = list(self.scheduler)
        sequence = everyone[which % len(everyone)]
        self.scheduler.finish(sequence, "abort")
        self.scheduler.finish(sequence, "abort")

    @invariant()
    def the_books_balance(self) -> None:
        if hasattr(self, "scheduler"):
            self.scheduler.check()

    def teardown(self) -> None:
        if hasattr(self, "scheduler"):
            steps = 0
            while self.scheduler.has_work:
                self.step()
                steps += 1
                assert steps < 20_000, "the scheduler doesn't come to an end"
            assert self.scheduler.pool.num_free == self.scheduler.pool.num_blocks


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def sequence(name: str, count: int) -> Sequence:
    return Sequence(name, array("i", range(count)), SamplingParams(max_tokens=50), 8)


def test_the_latest_arrival_gives_way() -> None:
    scheduler = Scheduler(EngineKnobs(block_size=8, enable_prefix_caching=False), BlockPool(5))
    first, second = sequence("first", 15), sequence("second", 15)
    scheduler.add(first)
    scheduler.add(second)
    scheduler.commit(scheduler.schedule())
    preempted: list[Sequence] = []
    while not preempted:
        for running in scheduler.running:
            running.token_ids.append(1)
        step = scheduler.schedule()
        scheduler.commit(step)
        preempted = step.preempted
    assert preempted == [second]
    assert scheduler.running == [first]
    assert scheduler.waiting[0] is second
    assert not second.block_table


def test_a_long_prompt_leaves_room_for_others() -> None:
    knobs = EngineKnobs(block_size=8, max_num_batched_tokens=64, long_prefill_token_threshold=32, max_num_seqs=4)
    scheduler = Scheduler(knobs, BlockPool(100))
    scheduler.add(sequence("long", 300))
    scheduler.add(sequence("short", 20))
    step = scheduler.schedule()
    assert [(item.sequence.request_id, item.num_tokens) for item in step.scheduled] == [("long", 32), ("short", 20)]


def test_decoding_goes_on_while_a_prompt_is_read() -> None:
    scheduler = Scheduler(EngineKnobs(block_size=8, max_num_batched_tokens=32), BlockPool(100))
    early = sequence("early", 10)
    scheduler.add(early)
    scheduler.commit(scheduler.schedule())
    scheduler.add(sequence("late", 200))
    for _ in range(5):
        early.token_ids.append(1)
        step = scheduler.schedule()
        scheduler.commit(step)
        assert [(item.sequence.request_id, item.num_tokens) for item in step.scheduled] == [("early", 1), ("late", 31)]


def test_a_block_freed_twice_is_noticed() -> None:
    pool = BlockPool(4)
    blocks = pool.allocate(2)
    pool.release(blocks)
    with pytest.raises(PoolError, match="freed twice"):
        pool.release(blocks)


def test_a_lost_block_is_noticed() -> None:
    pool = BlockPool(4)
    pool.allocate(1)
    with pytest.raises(PoolError, match="miscounted"):
        pool.check([])


def test_tails_are_evicted_before_the_prefix_they_follow() -> None:
    pool = BlockPool(4)
    names = [chain_hash(b"", array("i", [index])) for index in range(3)]
    blocks = pool.allocate(3)
    for block, name in zip(blocks, names, strict=True):
        pool.register(block, name)
    pool.release(blocks)
    assert pool.find(names) == blocks
    pool.allocate(2)  # the never used block, then the tail
    assert pool.find(names) == blocks[:2]
    assert pool.num_cached == 2


def test_the_same_tokens_after_another_prefix_are_another_block() -> None:
    tokens = array("i", range(8))
    assert chain_hash(b"", tokens) != chain_hash(chain_hash(b"", tokens), tokens)
