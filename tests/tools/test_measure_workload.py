"""Workloads: content-addressed, salted, and drawn as their spec says."""

from __future__ import annotations

import statistics
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import spearmanr

from tools.errors import UserError
from tools.measure import LengthSpec, RequestRecord, WorkloadSpec, materialise, sharing_bound
from tools.measure.copula import stratified
from tools.measure.prose import SALT_WORDS, write
from tools.measure.skeleton import Conversation, Prefix, Skeleton, Turn
from tools.measure.words import WORDS, spell
from tools.measure.workload import MAX_SEED
from tools.measure.workload_file import read_workload, write_workload

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


@given(seeds, seeds, st.sampled_from([0, 9, 32]))
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


def test_more_requests_than_two_words_spell_have_prompts_of_their_own() -> None:
    count = len(WORDS) ** 2 + 2
    skeleton = Skeleton((Prefix(9),), (Conversation((Turn(3, 1),), prefix=0),) * count)
    requests = write(skeleton, 1, part="measured", spec_digest="")
    assert len({request.messages[1]["content"] for request in requests}) == count
    # The prefixes are few: there's room for the whole salt.
    other = write(Skeleton(skeleton.prefixes, skeleton.conversations[:1]), 2, part="measured", spec_digest="")
    assert requests[0].messages[0] != other[0].messages[0]


@given(seeds, seeds)
@settings(max_examples=20, deadline=None)
def test_the_tools_of_two_seeds_differ_within_the_words_that_spell_the_seed(seed: int, other: int) -> None:
    if seed == other:
        return
    openings = [
        {
            " ".join(tool["function"]["description"].split()[:SALT_WORDS])
            for tool in materialise(spec, s).requests[0].tools
        }
        for s in (seed, other)
        for spec in [chat(tools=3, requests=1)]
    ]
    assert [len(opening) for opening in openings] == [1, 1] and openings[0] != openings[1]


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


def test_a_changed_copy_has_a_digest_of_its_own() -> None:
    spec = chat()
    before = spec.digest
    assert spec.model_copy(update={"requests": 13}).digest != before == spec.digest


def test_another_rate_draws_the_same_lengths() -> None:
    slow, fast = (materialise(chat(arrivals={"kind": "poisson", "rate_rps": rate}), 3).requests for rate in (1, 10))
    assert [(r.own_words, r.max_tokens) for r in slow] == [(r.own_words, r.max_tokens) for r in fast]
    assert [r.scheduled_s for r in slow] != [r.scheduled_s for r in fast]


def test_lengths_are_what_the_prompt_holds() -> None:
    for request in materialise(chat()).requests:
        for message, length in zip(request.messages, (32, request.own_words), strict=True):
            content = str(message["content"])
            assert len(content.replace(".", " .").split()) == length
        assert 10 <= request.own_words <= 100
        assert 4 <= request.max_tokens <= 16


def test_declared_sharing_is_the_system_prompts_share_of_the_words() -> None:
    workload = materialise(chat(prompt_tokens=96))
    assert workload.declared_sharing == pytest.approx(0.25)
    assert materialise(chat(system_prompt_tokens=0)).declared_sharing == 0


@given(st.integers(0, 40), st.integers(1, 3))
def test_the_sharing_bound_covers_the_chat_template_and_long_words(template: int, tokens_per_word: int) -> None:
    workload = materialise(chat())
    prompts = [template + tokens_per_word * (32 + request.own_words) for request in workload.requests]
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


@given(st.integers(1, 500), st.integers(0, 500), st.data())
def test_a_length_stays_within_its_bounds(low: int, span: int, data: st.DataObject) -> None:
    mean = data.draw(st.none() | st.floats(low, low + span))
    std = None if mean is None else data.draw(st.floats(0.1, 1000))
    spec = LengthSpec(min=low, max=low + span, mean=mean, std=std)
    us = sorted(stratified(Random(data.draw(st.integers())), 20))
    lengths = [spec.quantile(u) for u in us]
    assert all(low <= length <= low + span for length in lengths)
    assert lengths == sorted(lengths)


def test_a_log_normal_length_has_the_mean_it_was_given() -> None:
    spec = LengthSpec(min=1, max=100_000, mean=200, std=100)
    draws = [spec.quantile(u) for u in stratified(Random(5), 5000)]
    assert statistics.fmean(draws) == pytest.approx(200, rel=0.01)
    assert statistics.stdev(draws) == pytest.approx(100, rel=0.02)
    assert statistics.median(draws) < 200


@given(seeds, st.integers(1, 200))
def test_every_seed_draws_the_same_marginals(seed: int, requests: int) -> None:
    spec = chat(requests=requests, prompt_tokens={"min": 100, "max": 1099})
    lengths = sorted(request.own_words for request in materialise(spec, seed).requests)
    even = [100 + 1000 * (place + 0.5) / requests for place in range(requests)]
    assert all(abs(length - middle) <= 500 / requests + 1 for length, middle in zip(lengths, even, strict=True))


@pytest.mark.parametrize("asked", [-0.6, 0.0, 0.8])
def test_lengths_correlate_as_asked(asked: float) -> None:
    spec = chat(requests=2000, length_correlation=asked, output_tokens={"min": 1, "max": 9000})
    requests = materialise(spec, 1).requests
    found = spearmanr([r.own_words for r in requests], [r.max_tokens for r in requests]).statistic
    assert found == pytest.approx(asked, abs=0.06)


def talk(**changes: Any) -> WorkloadSpec:
    return chat(requests=40, turns={"min": 2, "max": 5}, turn_gap_s={"min_s": 1, "max_s": 3}, **changes)


@given(seeds)
@settings(max_examples=20)
def test_each_turn_holds_the_turns_before_it(seed: int) -> None:
    workload = materialise(talk(), seed)
    assert len(workload.requests) == 40
    for before, after in pairwise(workload.requests):
        if after.turn == 0:
            assert after.conversation == before.conversation + 1
            assert after.scheduled_s is not None and after.gap_s == 0
            continue
        assert after.conversation == before.conversation and after.turn == before.turn + 1
        assert after.scheduled_s is None and 1 <= after.gap_s <= 3
        assert after.messages[: len(before.messages)] == before.messages
        answer, question = after.messages[len(before.messages) :]
        assert (answer["role"], question["role"]) == ("assistant", "user")
        assert words(answer) == before.max_tokens
        assert words(question) + words(answer) == after.own_words


def words(message: dict[str, str]) -> int:
    return len(message["content"].replace(".", " .").split())


def test_sharing_counts_history_and_prefix() -> None:
    workload = materialise(talk(), 1)
    total = sum(words(message) for request in workload.requests for message in request.messages)
    own = sum(request.own_words for request in workload.requests)
    assert workload.declared_sharing == pytest.approx(1 - own / total)
    assert sum(workload.prompt_words) == total


TREE = {
    "prefixes": [{"tokens": 20}, {"tokens": 30, "parent": 0}, {"tokens": 40, "parent": 0}],
    "conversations": [
        {"prefix": 1, "turns": [[12, 5, 0], [9, 6, 2.5]]},
        {"prefix": 2, "turns": [[30, 7, 0]]},
        {"turns": [[50, 8, 0]]},
    ],
}


def shaped(**changes: Any) -> WorkloadSpec:
    return WorkloadSpec.model_validate(
        {"requests": 4, "shapes": TREE, "arrivals": {"kind": "constant", "rate_rps": 1}, **changes}
    )


def test_shapes_give_back_each_conversation_once() -> None:
    workload = materialise(shaped(), 5)
    found = sorted(
        (r.turn, prompt, r.max_tokens) for r, prompt in zip(workload.requests, workload.prompt_words, strict=True)
    )
    assert found == [(0, 50, 8), (0, 62, 5), (0, 90, 7), (1, 76, 6)]
    systems = {r.messages[0]["content"] for r in workload.requests if r.messages[0]["role"] == "system"}
    one, other = systems
    assert one.split()[:19] == other.split()[:19] and one.split()[19] != other.split()[19]


def test_what_is_too_short_for_the_seed_is_the_same_for_two_and_whole_prefixes_are_not() -> None:
    """The limit that `prose.write` states."""
    short = {"conversations": [{"turns": [[1, 5, 0]]}]}
    begun = {"prefixes": [{"tokens": 9}], "conversations": [{"prefix": 0, "turns": [[1, 5, 0]]}]}
    for shapes, tools, same in ((short, 0, True), (short, 1, False), (begun, 0, False)):
        one, other = (materialise(shaped(shapes=shapes, tools=tools), seed).requests[0] for seed in (1, 2))
        assert (one == other) is same


@given(seeds, st.integers(1, 60))
def test_shapes_give_as_many_requests_as_are_asked_for(seed: int, requests: int) -> None:
    workload = materialise(shaped(requests=requests), seed)
    assert [request.index for request in workload.requests] == list(range(requests))
    if requests % 4 == 0:
        kinds = sorted(request.max_tokens for request in workload.requests if request.turn == 0)
        assert kinds == sorted([5, 7, 8] * (requests // 4))


@pytest.mark.parametrize("seed", [1, 2**40])
def test_a_workload_goes_through_its_file_unchanged(tmp_path: Path, seed: int) -> None:
    for name, spec in (("a.jsonl", talk(tools=3)), ("b.jsonl.gz", shaped())):
        workload = materialise(spec, seed)
        write_workload(workload, tmp_path / name)
        again = read_workload(tmp_path / name)
        assert again == workload and again.digest == workload.digest
        # A conversation's turns hold one history, and all requests one system prompt, not a copy each.
        messages = [message for request in (*again.warmup, *again.requests) for message in request.messages]
        assert len({id(message) for message in messages}) == len({str(message) for message in messages})
    assert {path.name for path in tmp_path.iterdir()} == {"a.jsonl", "b.jsonl.gz"}


def test_a_file_that_was_changed_or_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    write_workload(materialise(chat(), 1), path)
    text = path.read_text()
    for wrong in (text[: len(text) // 2], text.replace('"max_tokens":4', '"max_tokens":5'), "{}\n", "", "hello"):
        path.write_text(wrong)
        with pytest.raises(UserError, match="expected"):
            read_workload(path)


def test_a_file_without_its_digest_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    write_workload(materialise(chat(), 1), path)
    path.write_text(path.read_text().replace('"digest":', '"digets":'))
    with pytest.raises(UserError, match=r"expected a concrete workload .*'digest'"):
        read_workload(path)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_compressed_file_that_was_cut_or_changed_is_refused(tmp_path_factory: Any, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "w.jsonl.gz"
    write_workload(materialise(chat(), 1), path)
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        path.write_bytes(whole[:place])
    else:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :])
    try:
        again = read_workload(path)
    except UserError as error:
        assert str(path) in str(error)
    else:
        assert again == materialise(chat(), 1)  # a byte that gzip itself doesn't mind, such as the system's


def test_a_workload_that_can_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "w.jsonl").mkdir()
    with pytest.raises(UserError, match=r"w\.jsonl: can't be written"):
        write_workload(materialise(chat(), 1), tmp_path / "w.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["w.jsonl"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"class": "agent"}, "chat"),
        ({"prompt_tokens": {"min": 5, "max": 50}}, "a prompt of its own"),
        ({"prompt_tokens": {"min": 50, "max": 20}}, "min <= max"),
        ({"prompt_tokens": {"min": 10, "max": 20, "mean": 15}}, "both mean and std"),
        ({"prompt_tokens": {"min": 10, "max": 20, "mean": 30, "std": 2}}, "a mean from min"),
        ({"system_prompt_tokens": 3}, "at least 9"),
        ({"arrivals": {"kind": "poisson"}}, "rate_rps"),
        ({"arrivals": {"kind": "poisson", "rate_rps": 0}}, "greater than 0"),
        ({"arrivals": {"kind": "closed", "rate_rps": 1}}, "concurrency"),
        ({"arrivals": {"kind": "wave", "rate_rps": 1}}, "kind"),
        ({"requests": 0}, "greater than or equal to 1"),
        ({"timeout_s": 0}, "greater than 0"),
        ({"seeds": 1}, "Extra inputs"),
        ({"prompt_tokens": None}, "expected prompt_tokens and output_tokens"),
        ({"shapes": TREE}, "either shapes or lengths"),
        ({"turn_gap_s": {"min_s": 3, "max_s": 1}}, "min_s <= max_s"),
        ({"length_correlation": 1.5}, "0.99"),
        ({"arrivals": {"kind": "replay", "times_s": [0, 1]}}, "2 moments for 12 requests"),
    ],
)
def test_a_wrong_spec_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        chat(**change)


def test_a_seed_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="seed"):
        materialise(chat(), MAX_SEED + 1)
