"""What the engine promises of its answers, whatever the scheduler had to do for them."""

from __future__ import annotations

import dataclasses
import random
import time
from pathlib import Path

import pytest
import torch

from engine import LLM, EngineKnobs, RequestRefused, SamplingParams
from engine.kernels.native_kernels import why_not_native

KNOBS = EngineKnobs(dtype="fp32", num_threads=1, kv_cache_tokens=4096)
GREEDY = SamplingParams(max_tokens=24, temperature=0, ignore_eos=True)

WAYS = {
    "plain": {"dtype": "fp32", "async_scheduling": "off"},
    "overlapped": {"dtype": "fp32", "async_scheduling": "on"},
    "native": {"dtype": "bf16", "kernels": "native"},
}
"""Ways to compute that promise the same answer whatever runs beside it."""


def tokens(count: int, seed: int = 0) -> list[int]:
    return random.Random(seed).choices(range(3, 480), k=count)


class Maker:
    """LLMs over the tiny model, all computing in one way."""

    def __init__(self, model: Path, way: dict[str, object]) -> None:
        self._model, self._way = model, way

    def __call__(self, **knobs: object) -> LLM:
        return LLM(self._model, dataclasses.replace(KNOBS, **self._way, **knobs))  # type: ignore[arg-type]


@pytest.fixture(params=WAYS)
def make(request: pytest.FixtureRequest, tiny_model: Path) -> Maker:
    if request.param == "native" and (reason := why_not_native(torch.bfloat16, torch.device("cpu"))):
        pytest.skip(reason)
    return Maker(tiny_model, WAYS[request.param])


def one(llm: LLM, prompt: list[int], params: SamplingParams = GREEDY) -> list[int]:
    return llm.generate([prompt], params)[0].token_ids


def answers(llm: LLM, prompts: list[list[int]], params: SamplingParams = GREEDY) -> list[list[int]]:
    return [completion.token_ids for completion in llm.generate(prompts, params)]


def metric(llm: LLM, name: str) -> float:
    lines = llm.engine.metrics.expose().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.split()[0] == name)


@pytest.fixture
def llm(make: Maker) -> LLM:
    return make()


def test_a_full_prefix_hit_still_computes_one_token(llm: LLM) -> None:
    prompt = tokens(64)  # a multiple of the block size
    first, again = llm.generate([prompt], GREEDY)[0], llm.generate([prompt], GREEDY)[0]
    assert again.token_ids == first.token_ids
    assert first.num_cached_tokens == 0
    assert again.num_cached_tokens == 48  # whole blocks of 16 within the first 63 tokens


def test_a_prefix_is_only_found_once_it_has_been_computed(make: Maker) -> None:
    llm, prompt = make(max_num_batched_tokens=32), tokens(100)
    expected = one(make(), prompt)
    # Both are admitted in the same steps: the second must not read blocks that the first is still writing.
    assert answers(llm, [prompt, prompt]) == [expected, expected]


def test_a_late_twin_shares_what_the_first_has_computed_so_far(make: Maker) -> None:
    engine, prompt = make(max_num_batched_tokens=32).engine, tokens(100)
    expected = one(make(), prompt)
    got: dict[str, list[int]] = {"first": [], "second": []}
    cached = 0
    engine.add("first", prompt, GREEDY)
    for _ in range(3):
        engine.step()
    engine.add("second", prompt, GREEDY)
    while engine.has_work:
        for delta in engine.step():
            got[delta.request_id] += delta.token_ids
            cached = max(cached, delta.num_cached_tokens)
    assert got["first"] == got["second"] == expected
    assert cached > 0


def test_a_preempted_sequence_resumes_with_the_same_answer(make: Maker) -> None:
    roomy, tight = make(), make(kv_cache_tokens=512)
    prompts = [tokens(90, seed) for seed in range(8)]
    params = dataclasses.replace(GREEDY, max_tokens=60)
    expected = [one(roomy, prompt, params) for prompt in prompts]
    assert answers(tight, prompts, params) == expected
    assert metric(tight, "engine_num_preemptions_total") > 0
    assert metric(tight, "engine_recomputed_tokens_total") > 0


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("victim", ["latest", "cheapest"])
def test_preemption_is_exact_with_and_without_the_prefix_cache(make: Maker, caching: bool, victim: str) -> None:
    tight = make(
        kv_cache_tokens=512, enable_prefix_caching=caching, max_num_batched_tokens=48, preemption_victim=victim
    )
    shared = tokens(40)
    prompts = [shared + tokens(30, seed) for seed in range(12)]
    params = dataclasses.replace(GREEDY, max_tokens=90)
    expected = [one(make(), prompt, params) for prompt in prompts[:3]]
    assert answers(tight, prompts, params)[:3] == expected
    assert metric(tight, "engine_num_preemptions_total") > 0


def test_seeded_sampling_survives_preemption_and_neighbours(make: Maker) -> None:
    params = SamplingParams(max_tokens=60, temperature=1.0, top_p=0.95, seed=7, ignore_eos=True)
    alone = one(make(), tokens(90), params)
    tight = make(kv_cache_tokens=512)
    together = answers(tight, [tokens(90, seed) for seed in range(8)], params)
    assert metric(tight, "engine_num_preemptions_total") > 0
    assert together[0] == alone


def test_cold_and_cached_answers_are_the_same(make: Maker) -> None:
    llm = make()
    for length in range(15, 50):
        prompt = tokens(length, seed=3)
        cached = one(llm, prompt)
        assert llm.engine.reset_prefix_cache()
        assert one(llm, prompt) == cached
        assert one(llm, prompt) == cached


@pytest.mark.parametrize("block_size", [16, 32, 64])
@pytest.mark.parametrize("threshold", [0, 7])
def test_knobs_that_are_called_lossless_do_not_change_the_answer(make: Maker, block_size: int, threshold: int) -> None:
    prompts = [tokens(length, seed=length) for length in (1, 2, 31, 64, 200)]
    expected = [one(make(), prompt) for prompt in prompts]
    llm = make(block_size=block_size, long_prefill_token_threshold=threshold, max_num_batched_tokens=16, max_num_seqs=3)
    assert answers(llm, prompts) == expected


def test_penalties_and_biases_depend_on_what_was_said(make: Maker) -> None:
    prompt = tokens(20)
    plain = one(make(), prompt)
    once = one(make(), prompt, dataclasses.replace(GREEDY, frequency_penalty=2.0, presence_penalty=2.0))
    assert len(set(once)) > len(set(plain))
    forbidden = dataclasses.replace(GREEDY, logit_bias=((plain[0], -100.0),))
    assert plain[0] not in one(make(), prompt, forbidden)
    forced = dataclasses.replace(GREEDY, logit_bias=((77, 100.0),))
    assert set(one(make(), prompt, forced)) == {77}
    repeated = one(make(), prompt, dataclasses.replace(GREEDY, repetition_penalty=5.0))
    assert not set(repeated[:8]) & set(prompt)


def test_edited_logits_survive_preemption(make: Maker) -> None:
    params = dataclasses.replace(GREEDY, max_tokens=60, frequency_penalty=1.0)
    prompts = [tokens(90, seed) for seed in range(8)]
    expected = [one(make(), prompt, params) for prompt in prompts[:2]]
    assert answers(make(kv_cache_tokens=512), prompts, params)[:2] == expected


def test_log_probabilities_are_of_the_model_and_sum_to_one(make: Maker) -> None:
    llm, prompt = make(), tokens(40)
    params = dataclasses.replace(GREEDY, logprobs=3, prompt_logprobs=2, max_tokens=6)
    alone = llm.generate([prompt], params)[0]
    assert len(alone.logprobs) == 6
    for token, known in zip(alone.token_ids, alone.logprobs, strict=True):
        assert known.token_id == token == known.top[0][0]
        assert known.rank == 1
        assert len(known.top) == 3
        assert sorted(known.top, key=lambda item: -item[1]) == list(known.top)
    assert alone.prompt_logprobs[0] is None
    assert [known.token_id for known in alone.prompt_logprobs[1:] if known] == prompt[1:]
    # What the prompt says of an answer is what the answer said of itself, cached prefix or not, in chunks or not.
    again = make(max_num_batched_tokens=32).generate([prompt + alone.token_ids], params)[0]
    for said, read in zip(alone.logprobs, again.prompt_logprobs[len(prompt) :], strict=True):
        assert read is not None
        assert read.logprob == pytest.approx(said.logprob, abs=1e-3)


def test_an_end_of_text_is_not_chosen_before_min_tokens(make: Maker) -> None:
    free = one(make(), tokens(20))
    stop = dataclasses.replace(GREEDY, stop_token_ids=frozenset({free[3]}))
    assert one(make(), tokens(20), stop) == free[: free.index(free[3]) + 1]
    later = one(make(), tokens(20), dataclasses.replace(stop, min_tokens=10))
    assert len(later) > 10 or later[:10] == later
    assert free[3] not in later[:10]


def test_a_deadline_ends_a_request_wherever_it_is(make: Maker) -> None:
    engine = make(max_num_seqs=1, max_num_batched_tokens=16).engine
    engine.add("running", tokens(20), GREEDY, deadline_s=time.monotonic() + 0.2)
    engine.add("waiting", tokens(20), GREEDY, deadline_s=time.monotonic() + 0.1)
    engine.step()
    time.sleep(0.25)
    ends = {delta.request_id: delta.finish_reason for delta in engine.step() if delta.finish_reason}
    assert ends == {"running": "deadline", "waiting": "deadline"}
    while engine.has_work:
        assert not [delta for delta in engine.step() if delta.token_ids]
    assert engine.scheduler.pool.num_free == engine.layout.num_blocks


def test_an_overlong_prompt_is_refused_and_the_limit_named(llm: LLM) -> None:
    with pytest.raises(RequestRefused, match=r"512 tokens; the limit is 511") as refusal:
        llm.engine.add("r", tokens(512), GREEDY)
    assert refusal.value.status == 400
    with pytest.raises(RequestRefused, match="Ask for at most 12"):
        llm.engine.add("r", tokens(500), GREEDY)
    assert not llm.engine.has_work


def test_the_longest_sequence_that_is_allowed_fits_the_smallest_cache(make: Maker) -> None:
    assert len(one(make(kv_cache_tokens=512), tokens(500), dataclasses.replace(GREEDY, max_tokens=12))) == 12


def test_tokens_outside_the_vocabulary_are_refused(llm: LLM) -> None:
    with pytest.raises(RequestRefused, match="0 to 511"):
        llm.engine.add("r", [5, 512], GREEDY)
    with pytest.raises(RequestRefused, match="empty"):
        llm.engine.add("r", [], GREEDY)
    with pytest.raises(RequestRefused, match="logit_bias"):
        llm.engine.add("r", [5], dataclasses.replace(GREEDY, logit_bias=((512, 1.0),)))


def test_an_aborted_request_frees_its_blocks_exactly_once(llm: LLM) -> None:
    engine = llm.engine
    for moment in range(6):
        engine.add("a", tokens(100, seed=moment), GREEDY)
        engine.add("b", tokens(100, seed=moment), GREEDY)
        for _ in range(moment):
            engine.step()
        engine.finish("a")
        engine.finish("a")
        engine.scheduler.check()
        while engine.has_work:
            engine.step()
        engine.finish("b")
        engine.scheduler.check()
        assert engine.scheduler.pool.num_free == engine.layout.num_blocks


def test_metrics_count_each_prompt_once_even_when_preempted(make: Maker) -> None:
    tight = make(kv_cache_tokens=512)
    answers(tight, [tokens(90, seed) for seed in range(8)], dataclasses.replace(GREEDY, max_tokens=60))
    assert metric(tight, "engine_num_preemptions_total") > 0
    assert metric(tight, "engine_prefix_cache_queries_total") == 8 * 90
    assert metric(tight, "engine_prefix_cache_hits_total") == 0
    assert metric(tight, "engine_prompt_tokens_total") == 8 * 90
    assert metric(tight, "engine_generation_tokens_total") == 8 * 60
    assert metric(tight, "engine_time_to_first_token_seconds_count") == 8
    assert metric(tight, "engine_inter_token_latency_seconds_count") == 8 * 59


def test_generation_ends_at_the_end_of_text_unless_it_is_ignored(llm: LLM) -> None:
    free = one(llm, tokens(20))
    llm.engine._eos[free[5]] = True
    stopped = llm.generate([tokens(20)], dataclasses.replace(GREEDY, ignore_eos=False))[0]
    assert stopped.finish_reason == "stop"
    assert stopped.token_ids == free[: free.index(free[5]) + 1]
    assert one(llm, tokens(20)) == free


def test_a_stop_string_ends_the_answer_before_it(llm: LLM) -> None:
    whole = llm.generate(["What is the capital"], GREEDY)[0]
    stop = whole.text[6:9]
    stopped = llm.generate(["What is the capital"], dataclasses.replace(GREEDY, stop=(stop,)))[0]
    assert stopped.text == whole.text[: whole.text.index(stop)]
    assert stopped.finish_reason == "stop"
    assert len(stopped.token_ids) < len(whole.token_ids)


def test_the_cache_is_not_reset_under_running_requests(llm: LLM) -> None:
    engine = llm.engine
    engine.add("r", tokens(40), GREEDY)
    assert not engine.reset_prefix_cache()
    while engine.has_work:
        engine.step()
    assert engine.reset_prefix_cache()
    assert engine.scheduler.pool.num_cached == 0


def test_an_answer_that_is_no_number_ends_in_an_error_and_spares_the_others(make: Maker) -> None:
    llm = make()
    prompt = [3, 4, 5]
    expected = one(llm, prompt)
    unsaid = next(token for token in range(300, 400) if token not in expected)
    llm.engine._runner._model._embedding[unsaid] = torch.nan
    llm.engine.add("broken", [unsaid, 7], GREEDY)
    llm.engine.add("whole", prompt, GREEDY)
    got: dict[str, list[int]] = {"broken": [], "whole": []}
    ends = {}
    while llm.engine.has_work:
        for delta in llm.engine.step():
            got[delta.request_id] += delta.token_ids
            ends[delta.request_id] = delta.finish_reason
    assert (ends["broken"], got["broken"]) == ("error", [])
    assert got["whole"] == expected
    assert metric(llm, "engine_corrupted_requests_total") == 1
