"""What the engine promises of its answers, whatever the scheduler had to do for them."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest

from engine import Engine, EngineKnobs, RequestRefused, SamplingParams

KNOBS = EngineKnobs(dtype="fp32", num_threads=1, kv_cache_tokens=4096)
GREEDY = SamplingParams(max_tokens=24, temperature=0, ignore_eos=True)


def tokens(count: int, seed: int = 0) -> list[int]:
    return random.Random(seed).choices(range(3, 480), k=count)


def engine_of(model: Path, **knobs: object) -> Engine:
    return Engine(model, dataclasses.replace(KNOBS, **knobs))  # type: ignore[arg-type]


def one(engine: Engine, prompt: list[int], params: SamplingParams = GREEDY) -> tuple[int, ...]:
    return engine.generate([prompt], params)[0].token_ids


def metric(engine: Engine, name: str) -> float:
    lines = engine.metrics.expose().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.split()[0] == name)


@pytest.fixture
def engine(tiny_model: Path) -> Engine:
    return engine_of(tiny_model)


def test_a_full_prefix_hit_still_computes_one_token(engine: Engine) -> None:
    prompt = tokens(64)  # a multiple of the block size
    first, again = engine.generate([prompt], GREEDY)[0], engine.generate([prompt], GREEDY)[0]
    assert again.token_ids == first.token_ids
    assert first.num_cached_tokens == 0
    assert again.num_cached_tokens == 48  # whole blocks of 16 within the first 63 tokens


def test_a_prefix_is_only_found_once_it_has_been_computed(tiny_model: Path) -> None:
    engine = engine_of(tiny_model, max_num_batched_tokens=32)
    prompt = tokens(100)
    expected = one(engine_of(tiny_model), prompt)
    # Both are admitted in the same steps: the second must not read blocks that the first is still writing.
    both = engine.generate([prompt, prompt], GREEDY)
    assert [c.token_ids for c in both] == [expected, expected]


def test_a_late_twin_shares_what_the_first_has_computed_so_far(tiny_model: Path) -> None:
    engine = engine_of(tiny_model, max_num_batched_tokens=32)
    prompt = tokens(100)
    expected = one(engine_of(tiny_model), prompt)
    engine.add("first", prompt, GREEDY)
    engine.step()
    engine.step()
    answers: dict[str, list[int]] = {"first": [], "second": []}
    cached = 0
    engine.add("second", prompt, GREEDY)
    while engine.has_work:
        for delta in engine.step():
            answers[delta.request_id] += delta.token_ids
            cached = max(cached, delta.num_cached_tokens)
    assert tuple(answers["first"]) == tuple(answers["second"]) == expected
    assert cached > 0


def test_a_preempted_sequence_resumes_with_the_same_answer(tiny_model: Path) -> None:
    roomy, tight = engine_of(tiny_model), engine_of(tiny_model, kv_cache_tokens=512)
    prompts = [tokens(90, seed) for seed in range(8)]
    params = dataclasses.replace(GREEDY, max_tokens=60)
    expected = [one(roomy, prompt, params) for prompt in prompts]
    assert [c.token_ids for c in tight.generate(prompts, params)] == expected
    assert metric(tight, "engine_num_preemptions_total") > 0


@pytest.mark.parametrize("caching", [True, False])
def test_preemption_is_exact_with_and_without_the_prefix_cache(tiny_model: Path, caching: bool) -> None:
    tight = engine_of(tiny_model, kv_cache_tokens=512, enable_prefix_caching=caching, max_num_batched_tokens=48)
    shared = tokens(40)
    prompts = [shared + tokens(30, seed) for seed in range(12)]
    params = dataclasses.replace(GREEDY, max_tokens=90)
    expected = [one(engine_of(tiny_model), prompt, params) for prompt in prompts[:3]]
    assert [c.token_ids for c in tight.generate(prompts, params)][:3] == expected
    assert metric(tight, "engine_num_preemptions_total") > 0


def test_a_preempted_sequence_reads_its_own_output_again(tiny_model: Path) -> None:
    engine = engine_of(tiny_model, enable_prefix_caching=False)
    expected = one(engine, tokens(20))
    engine.add("r", tokens(20), GREEDY)
    got: list[int] = []
    for _ in range(10):
        got += [token for delta in engine.step() for token in delta.token_ids]
    scheduler = engine.scheduler
    victim = scheduler.running.pop()
    scheduler._preempt(scheduler.schedule(), victim)
    scheduler.check()
    while engine.has_work:
        got += [token for delta in engine.step() for token in delta.token_ids]
    assert tuple(got) == expected


def test_seeded_sampling_survives_preemption_and_neighbours(tiny_model: Path) -> None:
    params = SamplingParams(max_tokens=60, temperature=1.0, seed=7, ignore_eos=True)
    alone = one(engine_of(tiny_model), tokens(90), params)
    tight = engine_of(tiny_model, kv_cache_tokens=512)
    together = tight.generate([tokens(90, seed) for seed in range(8)], params)
    assert metric(tight, "engine_num_preemptions_total") > 0
    assert together[0].token_ids == alone


def test_cold_and_cached_answers_are_the_same(tiny_model: Path) -> None:
    engine = engine_of(tiny_model)
    for length in range(15, 50):
        prompt = tokens(length, seed=3)
        cached = one(engine, prompt)
        assert engine.reset_prefix_cache()
        assert one(engine, prompt) == cached
        assert engine.generate([prompt], GREEDY)[0].token_ids == cached


@pytest.mark.parametrize("block_size", [8, 16, 32, 64])
@pytest.mark.parametrize("threshold", [0, 7])
def test_knobs_that_are_called_lossless_do_not_change_the_answer(
    tiny_model: Path, block_size: int, threshold: int
) -> None:
    prompts = [tokens(length, seed=length) for length in (1, 2, 31, 64, 200)]
    expected = [one(engine_of(tiny_model), prompt) for prompt in prompts]
    engine = engine_of(
        tiny_model,
        block_size=block_size,
        long_prefill_token_threshold=threshold,
        max_num_batched_tokens=16,
        max_num_seqs=3,
    )
    assert [c.token_ids for c in engine.generate(prompts, GREEDY)] == expected


def test_an_overlong_prompt_is_refused_and_the_limit_named(engine: Engine) -> None:
    with pytest.raises(RequestRefused, match=r"512 tokens; the limit is 511") as refusal:
        engine.add("r", tokens(512), GREEDY)
    assert refusal.value.status == 400
    with pytest.raises(RequestRefused, match="Ask for at most 12"):
        engine.add("r", tokens(500), GREEDY)
    assert not engine.has_work


def test_the_longest_sequence_that_is_allowed_fits_the_smallest_cache(tiny_model: Path) -> None:
    engine = engine_of(tiny_model, kv_cache_tokens=512)
    answer = engine.generate([tokens(500)], dataclasses.replace(GREEDY, max_tokens=12))[0]
    assert len(answer.token_ids) == 12


def test_tokens_outside_the_vocabulary_are_refused(engine: Engine) -> None:
    with pytest.raises(RequestRefused, match="0 to 511"):
        engine.add("r", [5, 512], GREEDY)
    with pytest.raises(RequestRefused, match="empty"):
        engine.add("r", [], GREEDY)


def test_an_aborted_request_frees_its_blocks_exactly_once(engine: Engine) -> None:
    for moment in range(6):
        engine.add("a", tokens(100, seed=moment), GREEDY)
        engine.add("b", tokens(100, seed=moment), GREEDY)
        for _ in range(moment):
            engine.step()
        engine.abort("a")
        engine.abort("a")
        engine.scheduler.check()
        while engine.has_work:
            engine.step()
        engine.abort("b")
        engine.scheduler.check()
        assert engine.scheduler.pool.num_free == engine.num_blocks


def test_prefix_metrics_count_each_prompt_once_even_when_preempted(tiny_model: Path) -> None:
    tight = engine_of(tiny_model, kv_cache_tokens=512)
    tight.generate([tokens(90, seed) for seed in range(8)], dataclasses.replace(GREEDY, max_tokens=60))
    assert metric(tight, "engine_num_preemptions_total") > 0
    assert metric(tight, "engine_prefix_cache_queries_total") == 8 * 90
    assert metric(tight, "engine_prefix_cache_hits_total") == 0
    assert metric(tight, "engine_prompt_tokens_total") == 8 * 90
    assert metric(tight, "engine_generation_tokens_total") == 8 * 60


def test_generation_ends_at_the_end_of_text_unless_it_is_ignored(engine: Engine) -> None:
    free = one(engine, tokens(20))
    engine._eos = frozenset({free[5]})
    stopped = engine.generate([tokens(20)], dataclasses.replace(GREEDY, ignore_eos=False))[0]
    assert stopped.finish_reason == "stop"
    assert stopped.token_ids == free[: free.index(free[5]) + 1]
    assert one(engine, tokens(20)) == free


def test_a_stop_string_ends_the_answer_before_it(engine: Engine) -> None:
    whole = engine.generate(["What is the capital"], GREEDY)[0]
    stop = whole.text[6:9]
    stopped = engine.generate(["What is the capital"], dataclasses.replace(GREEDY, stop=(stop,)))[0]
    assert stopped.text == whole.text[: whole.text.index(stop)]
    assert stopped.finish_reason == "stop"
    assert len(stopped.token_ids) < len(whole.token_ids)


def test_the_cache_is_not_reset_under_running_requests(engine: Engine) -> None:
    engine.add("r", tokens(40), GREEDY)
    assert not engine.reset_prefix_cache()
    while engine.has_work:
        engine.step()
    assert engine.reset_prefix_cache()
    assert engine.scheduler.pool.num_cached == 0
