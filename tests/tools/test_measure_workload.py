"""Workloads: content-addressed, salted, and drawn as their spec says."""

from __future__ import annotations

import statistics
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tools.measure import LengthSpec, RequestRecord, WorkloadSpec, materialise, sharing_bound
from tools.measure.arrivals import Burst, Closed, Constant, Poisson, schedule
from tools.measure.words import WORDS, spell
from tools.measure.workload import MAX_SEED

CHAT: dict[str, Any] = {
    "class": "chat",
    "requests": 12,
    "system_prompt_tokens": 32,
    "prompt_tokens": {"mean": 40, "std": 20, "min": 10, "max": 100},
    "output_tokens": {"min": 4, "max": 16},
    "arrivals": {"kind": "poisson", "rate_rps": 5},
}

seeds = st.integers(0, MAX_SEED)


def chat(**changes: Any) -> WorkloadSpec:
    return WorkloadSpec.model_validate({**CHAT, **changes})


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_the_same_seed_gives_the_same_bytes(seed: int) -> None:
    first, again = materialise(chat(), seed), materialise(chat(), seed)
    assert first.requests == again.requests
    assert first.digest == again.digest


@given(seeds, seeds, st.sampled_from([0, 7, 32]))
@settings(max_examples=60, deadline=None)
def test_two_seeds_share_no_request_and_no_prefix(seed: int, other: int, system: int) -> None:
    if seed == other:
        return
    here, there = (materialise(chat(system_prompt_tokens=system), s).requests for s in (seed, other))
    opening = [" ".join(str(part["content"]) for part in request.messages).split()[:9] for request in (*here, *there)]
    mine, theirs = opening[: len(here)], opening[len(here) :]
    assert all(words not in theirs for words in mine)


@given(st.integers(0, MAX_SEED - 1))
@settings(max_examples=60, deadline=None)
def test_neighbouring_seeds_differ_from_the_first_block_on(seed: int) -> None:
    systems = [str(materialise(chat(), s).requests[0].messages[0]["content"]).split() for s in (seed, seed + 1)]
    assert systems[0][:7] != systems[1][:7]


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_no_two_requests_share_more_than_the_system_prompt(seed: int) -> None:
    workload = materialise(chat(), seed)
    users = [str(request.messages[-1]["content"]).split()[:2] for request in (*workload.requests, *workload.warmup)]
    measured = users[: len(workload.requests)]
    assert len({tuple(words) for words in measured}) == len(measured)
    assert len({str(request.messages[0]) for request in workload.requests}) == 1
    assert workload.warmup[0].messages[0] != workload.requests[0].messages[0]


def test_the_digest_moves_with_every_part_of_the_spec_but_the_default_seed() -> None:
    changes: list[dict[str, Any]] = [
        {"requests": 13},
        {"system_prompt_tokens": 33},
        {"prompt_tokens": {"mean": 41, "std": 20, "min": 10, "max": 100}},
        {"output_tokens": {"min": 4, "max": 17}},
        {"arrivals": {"kind": "poisson", "rate_rps": 6}},
        {"arrivals": {"kind": "closed", "concurrency": 8}},
        {"warmup_requests": 3},
        {"timeout_s": 61},
    ]
    digests = {materialise(chat(**change), 1).digest for change in [{}, *changes]}
    assert len(digests) == len(changes) + 1
    assert chat(seed=9).digest == chat().digest
    assert materialise(chat(seed=9)).digest == materialise(chat(), 9).digest != materialise(chat()).digest


def test_another_rate_draws_the_same_lengths() -> None:
    slow, fast = (materialise(chat(arrivals={"kind": "poisson", "rate_rps": rate}), 3).requests for rate in (1, 10))
    assert [(r.user_words, r.max_tokens) for r in slow] == [(r.user_words, r.max_tokens) for r in fast]
    assert [r.scheduled_s for r in slow] != [r.scheduled_s for r in fast]


def test_lengths_are_what_the_prompt_holds() -> None:
    for request in materialise(chat()).requests:
        for message, length in zip(request.messages, (32, request.user_words), strict=True):
            content = str(message["content"])
            assert len(content.replace(".", " .").split()) == length
        assert 10 <= request.user_words <= 100
        assert 4 <= request.max_tokens <= 16


def test_declared_sharing_is_the_system_prompts_share_of_the_words() -> None:
    workload = materialise(chat(prompt_tokens=96))
    assert workload.declared_sharing == pytest.approx(0.25)
    assert materialise(chat(system_prompt_tokens=0)).declared_sharing == 0


@given(st.integers(0, 40), st.integers(1, 3))
def test_the_sharing_bound_covers_the_chat_template_and_long_words(template: int, tokens_per_word: int) -> None:
    workload = materialise(chat())
    prompts = [template + tokens_per_word * (32 + request.user_words) for request in workload.requests]
    records = [RequestRecord(index, 0.0, 0.0, "ok", 1.0, prompt_tokens=tokens) for index, tokens in enumerate(prompts)]
    bound = sharing_bound(workload, records)
    assert bound is not None
    assert len(prompts) * (template + tokens_per_word * 32) / sum(prompts) <= bound <= 1
    if tokens_per_word == 1:
        assert bound == pytest.approx(len(prompts) * (template + 32) / sum(prompts))


def test_the_sharing_bound_is_absent_without_counts() -> None:
    assert sharing_bound(materialise(chat()), [RequestRecord(0, 0.0, 0.0, "failed", 1.0)]) is None


@given(st.integers(0, len(WORDS) ** 3 - 1), st.integers(0, len(WORDS) ** 3 - 1))
def test_spelling_is_injective(one: int, other: int) -> None:
    assert (spell(one, 3) == spell(other, 3)) == (one == other)


def test_the_vocabulary_has_nine_bits() -> None:
    assert len(set(WORDS)) == len(WORDS) == 2**9


@given(seeds, st.integers(1, 50), st.floats(0.1, 1000))
def test_open_schedules_ascend_and_keep_their_rate(seed: int, requests: int, rate: float) -> None:
    for arrivals in (Poisson(kind="poisson", rate_rps=rate), Constant(kind="constant", rate_rps=rate)):
        due = schedule(arrivals, requests, seed)
        assert due is not None and len(due) == requests
        assert all(earlier <= later for earlier, later in pairwise(due))
        assert due[0] >= 0 and due[-1] <= requests / rate
    assert schedule(Burst(kind="burst"), requests, seed) == (0.0,) * requests
    assert schedule(Closed(kind="closed", concurrency=2), requests, seed) is None


def test_poisson_gaps_are_memoryless() -> None:
    due = schedule(Poisson(kind="poisson", rate_rps=10), 4000, 1)
    assert due is not None
    gaps = [later - earlier for earlier, later in pairwise(due)]
    assert statistics.fmean(gaps) == pytest.approx(0.1, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(0.1, rel=0.1)  # of an exponential, the mean is the deviation


@given(st.integers(1, 500), st.integers(0, 500), st.data())
def test_a_length_stays_within_its_bounds(low: int, span: int, data: st.DataObject) -> None:
    mean = data.draw(st.none() | st.floats(low, low + span))
    std = None if mean is None else data.draw(st.floats(0.1, 1000))
    spec = LengthSpec(min=low, max=low + span, mean=mean, std=std)
    random = Random(data.draw(st.integers()))
    assert all(low <= spec.draw(random) <= low + span for _ in range(20))


def test_a_log_normal_length_has_the_mean_it_was_given() -> None:
    spec = LengthSpec(min=1, max=100_000, mean=200, std=100)
    random = Random(5)
    draws = [spec.draw(random) for _ in range(5000)]
    assert statistics.fmean(draws) == pytest.approx(200, rel=0.05)
    assert statistics.stdev(draws) == pytest.approx(100, rel=0.1)
    assert statistics.median(draws) < 200


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"class": "agent"}, "chat"),
        ({"prompt_tokens": {"min": 5, "max": 50}}, "a prompt of its own"),
        ({"prompt_tokens": {"min": 50, "max": 20}}, "min <= max"),
        ({"prompt_tokens": {"min": 10, "max": 20, "mean": 15}}, "both mean and std"),
        ({"prompt_tokens": {"min": 10, "max": 20, "mean": 30, "std": 2}}, "a mean from min"),
        ({"system_prompt_tokens": 3}, "at least 7"),
        ({"arrivals": {"kind": "poisson"}}, "rate_rps"),
        ({"arrivals": {"kind": "poisson", "rate_rps": 0}}, "greater than 0"),
        ({"arrivals": {"kind": "closed", "rate_rps": 1}}, "concurrency"),
        ({"arrivals": {"kind": "wave", "rate_rps": 1}}, "kind"),
        ({"requests": 0}, "greater than or equal to 1"),
        ({"timeout_s": 0}, "greater than 0"),
        ({"seeds": 1}, "Extra inputs"),
    ],
)
def test_a_wrong_spec_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        chat(**change)


def test_a_seed_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="seed"):
        materialise(chat(), MAX_SEED + 1)
