"""The scheduler and its pool of blocks over a device that remembers what each slot holds, driven at random."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.block_pool import BlockPool, PoolError, chain_hash
from engine.knobs import EngineKnobs
from engine.scheduler import Step
from tests.engine.simulated import VOCAB_SIZE, Simulation, answer

SIZE = 16


def simulate(blocks: int = 100, *, overlap: bool = False, **knobs: object) -> Simulation:
    length = {"max_model_len": blocks * SIZE, "block_size": SIZE}
    return Simulation(EngineKnobs.from_values({**length, **knobs}), overlap, blocks)


class SchedulerMachine(RuleBasedStateMachine):
    """Requests come, run, are aborted and finish, in a cache that is far too small for them together."""

    @initialize(
        blocks=st.integers(16, 24),
        max_num_seqs=st.integers(1, 6),
        budget=st.integers(16, 64),
        threshold=st.sampled_from([0, 5, 20]),
        caching=st.booleans(),
        victim=st.sampled_from(["latest", "cheapest"]),
        overlap=st.booleans(),
    )
    def build(
        self, blocks: int, max_num_seqs: int, budget: int, threshold: int, caching: bool, victim: str, overlap: bool
    ) -> None:
        self.simulation = simulate(
            blocks,
            overlap=overlap,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=budget,
            long_prefill_token_threshold=threshold,
            enable_prefix_caching=caching,
            preemption_victim=victim,
        )
        self.prompts: dict[str, list[int]] = {}

    @rule(
        prefix=st.integers(0, 2),
        shared=st.integers(0, 80),
        own=st.integers(1, 40),
        more=st.integers(1, 60),
        priority=st.sampled_from([0, 0, 0, -1, 2]),
    )
    def add(self, prefix: int, shared: int, own: int, more: int, priority: int) -> None:
        prompt = [prefix] * shared + [(len(self.prompts) + 3) % VOCAB_SIZE] * own
        self.prompts[self.simulation.add(prompt, more, priority)] = prompt

    @rule()
    @precondition(lambda self: self.simulation.scheduler.has_work)
    def step(self) -> None:
        scheduler, limits = self.simulation.scheduler, self.simulation.knobs
        idle = scheduler.seats.num_vacant == limits.max_num_seqs
        step = self.simulation.step()
        assert step.num_tokens <= limits.max_num_batched_tokens
        assert len(set(step.seats.tolist())) == step.num_sequences <= limits.max_num_seqs
        assert (step.count >= 1).all()
        assert step.num_sequences or not idle or not scheduler.waiting, "whoever is first always gets in"

    @rule(which=st.integers(0, 100))
    @precondition(lambda self: self.simulation.scheduler.has_work)
    def abort(self, which: int) -> None:
        everyone = list(self.simulation.scheduler)
        if everyone:
            self.simulation.finish(everyone[which % len(everyone)].request_id)
            self.simulation.finish(everyone[which % len(everyone)].request_id)

    @invariant()
    def the_books_balance(self) -> None:
        if hasattr(self, "simulation"):
            self.simulation.scheduler.check()

    def teardown(self) -> None:
        if not hasattr(self, "simulation"):
            return
        self.simulation.run()
        scheduler = self.simulation.scheduler
        assert scheduler.pool.num_free == scheduler.pool.num_blocks
        assert scheduler.seats.num_vacant == self.simulation.knobs.max_num_seqs
        for name, prompt in self.prompts.items():
            said = self.simulation.answers[name]
            assert said == answer(prompt, len(said)), "company changed the answer"
            most = self.simulation.sequences[name].params.max_tokens
            assert len(said) == most or self.simulation.reasons[name] == "abort"


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def seats_of(simulation: Simulation, step: Step) -> list[tuple[str, int]]:
    found = []
    for seat, count in zip(step.seats.tolist(), step.count.tolist(), strict=True):
        found.append((next(n for n, s in simulation.sequences.items() if s.seat == seat), count))
    return found


def test_the_latest_arrival_gives_way() -> None:
    simulation = simulate(5, enable_prefix_caching=False)
    first, second = simulation.add([1] * 31, 40), simulation.add([2] * 31, 40)
    while not (preempted := simulation.step().preempted):
        pass
    assert [sequence.request_id for sequence in preempted] == [second]
    assert [sequence.request_id for sequence in simulation.scheduler.running] == [first]
    assert [sequence.request_id for sequence in simulation.scheduler.waiting] == [second]


def test_the_cheapest_gives_way_where_that_is_the_policy() -> None:
    simulation = simulate(7, enable_prefix_caching=False, preemption_victim="cheapest")
    simulation.add([1] * 47, 40)
    short, long = simulation.add([2] * 15, 40), simulation.add([3] * 46, 40)
    while not (preempted := simulation.step().preempted):
        pass
    assert [sequence.request_id for sequence in preempted] == [short]
    assert long in [sequence.request_id for sequence in simulation.scheduler.running]


def test_who_matters_more_goes_first_and_gives_way_last() -> None:
    simulation = simulate(5, enable_prefix_caching=False)
    low, high = simulation.add([1] * 31, 40, priority=1), simulation.add([2] * 31, 40, priority=0)
    step = simulation.step()
    assert [name for name, _ in seats_of(simulation, step)] == [high, low]
    while not (preempted := simulation.step().preempted):
        pass
    assert [sequence.request_id for sequence in preempted] == [low]


def test_a_preempted_request_returns_to_its_place_and_goes_on() -> None:
    simulation = simulate(5, enable_prefix_caching=False)
    names = [simulation.add([index] * 31, 30) for index in range(4)]
    simulation.run()
    for index, name in enumerate(names):
        assert simulation.answers[name] == answer([index] * 31, 30)
    assert simulation.sequences[names[1]].num_preemptions
    order = [s.request_id for step in simulation.steps for s in step.admitted]
    assert order == names


def test_a_long_prompt_leaves_room_for_others() -> None:
    simulation = simulate(max_num_batched_tokens=64, long_prefill_token_threshold=32, max_num_seqs=4)
    simulation.add([1] * 300, 5)
    simulation.add([2] * 20, 5)
    assert seats_of(simulation, simulation.step()) == [("r0", 32), ("r1", 20)]


def test_decoding_goes_on_while_a_prompt_is_read() -> None:
    simulation = simulate(max_num_batched_tokens=32)
    simulation.add([1] * 10, 50)
    simulation.step()
    simulation.add([2] * 200, 5)
    for _ in range(5):
        assert seats_of(simulation, simulation.step()) == [("r0", 1), ("r1", 31)]


def test_a_full_hit_leaves_one_token_to_compute() -> None:
    simulation = simulate()
    simulation.add([7] * (3 * SIZE), 2)
    simulation.run()
    name = simulation.add([7] * (3 * SIZE), 2)
    assert seats_of(simulation, simulation.step()) == [(name, SIZE)]
    assert simulation.sequences[name].num_cached_tokens == 2 * SIZE
    simulation.run()
    assert simulation.answers[name] == answer([7] * (3 * SIZE), 2)


def test_what_a_step_computes_is_nobodys_prefix_before_it_is_settled() -> None:
    simulation = simulate(max_num_batched_tokens=256)
    simulation.add([7] * 100, 2)
    simulation.add([7] * 100, 2)
    assert sorted(count for _, count in seats_of(simulation, simulation.step())) == [100, 100]


def test_overlap_computes_no_more_than_was_asked_for() -> None:
    simulation = simulate(overlap=True)
    name = simulation.add([3] * 10, 5)
    simulation.run()
    assert simulation.answers[name] == answer([3] * 10, 5)
    assert sum(step.num_tokens for step in simulation.steps) == 10 + 4


def test_whoever_leaves_in_mid_step_keeps_its_blocks_until_it_is_settled() -> None:
    simulation = simulate(overlap=True)
    name = simulation.add([3] * 40, 50)
    simulation.step()
    free = simulation.scheduler.pool.num_free
    simulation.finish(name)
    assert simulation.scheduler.pool.num_free == free
    simulation.settle()
    assert simulation.scheduler.pool.num_free == simulation.scheduler.pool.num_blocks


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
    names = [chain_hash(b"", bytes([index])) for index in range(3)]
    blocks = pool.allocate(3)
    for block, name in zip(blocks, names, strict=True):
        pool.register(block, name)
    pool.release(blocks)
    assert pool.find(names) == blocks
    pool.allocate(2)  # the never used block, then the tail
    assert pool.find(names) == blocks[:2]
    assert pool.num_cached == 2


def test_the_same_tokens_after_another_prefix_are_another_block() -> None:
    tokens = bytes(range(8))
    assert chain_hash(b"", tokens) != chain_hash(chain_hash(b"", tokens), tokens)
