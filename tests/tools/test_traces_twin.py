"""The twin of a log behaves like it: measured on what it would really send, by code that shares nothing with it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools import traces_logs as logs
from tools.measure.workload import Workload, materialise
from tools.traces import TraceLog, read_log
from tools.traces.conversations import conversations_of
from tools.traces.logged import LoggedRequest
from tools.traces.marginals import ks_distance
from tools.traces.shapes import shapes_of
from tools.traces.twin import HIT_GOAL, KS_GOAL, check_twin, replay_of, twin_of


def words_of(workload: Workload) -> list[list[str]]:
    """Each request's prompt, word by word, full stops being words."""
    return [
        " ".join(f"{m['role']} {m['content']}" for m in request.messages).replace(".", " .").split()
        for request in workload.requests
    ]


def hit_rate(prompts: Iterable[list[str]], block: int) -> float:
    """Share of the words in blocks whose words, and all before them, another prompt had before."""
    seen: set[int] = set()
    hits = total = 0
    for words in prompts:
        chain = 0
        total += len(words)
        for end in range(block, len(words) + 1, block):
            chain = hash((chain, *words[end - block : end]))
            hits += block * (chain in seen)
            seen.add(chain)
    return hits / total


def twin_workload(log: TraceLog, seed: int) -> Workload:
    return materialise(twin_of(log, conversations_of(log.requests)), seed)


SMALL = {
    "chat": lambda path: logs.chat_tenants(path, 11, conversations=120),
    "agents": lambda path: logs.agents(path, 11, tasks=60),
    "azure": lambda path: logs.azure(path.with_suffix(".csv.gz"), 11, requests=3000),
    "bursty": lambda path: logs.bursty_days(path, 11, days=2),
    "mooncake": lambda path: logs.mooncake(path, 11, conversations=2600),
    "documents": lambda path: logs.documents(path, 11, documents=1500),
}


@pytest.mark.parametrize("kind", SMALL)
def test_a_twin_is_close_to_its_log(tmp_path: Path, kind: str) -> None:
    log = read_log(SMALL[kind](tmp_path / "log"))
    conversations = conversations_of(log.requests)
    spec = twin_of(log, conversations)
    assert spec.shapes is not None and len(spec.shapes.conversations) <= 2000
    for seed in (0, 1):
        check = check_twin(conversations, spec, seed, block_tokens=log.block_tokens)
        assert max(check.ks.values()) <= KS_GOAL, check
        assert (check.hit_difference or 0) <= HIT_GOAL, check
        assert check.holds


def test_the_words_sent_have_the_lengths_and_the_sharing_of_the_log(tmp_path: Path) -> None:
    log = read_log(logs.chat_tenants(tmp_path / "log", 4, conversations=60))
    workload = twin_workload(log, 9)
    sent = words_of(workload)
    prompts = np.array([request.prompt_tokens for request in log.requests], dtype=float)
    roles = np.array([len(request.messages) for request in workload.requests])
    assert ks_distance(prompts, np.array([len(words) for words in sent]) - roles) <= KS_GOAL
    outputs = np.array([request.max_tokens for request in workload.requests], dtype=float)
    assert ks_distance(outputs, np.array([request.output_tokens for request in log.requests], dtype=float)) <= KS_GOAL
    blocks = [block for request in log.requests for block in request.blocks or ()]
    hits = (len(blocks) - len(set(blocks))) * log.block_tokens / prompts.sum()
    assert hit_rate(sent, log.block_tokens) == pytest.approx(hits, abs=HIT_GOAL)


def test_seeds_share_no_beginning(tmp_path: Path) -> None:
    log = read_log(logs.chat_tenants(tmp_path / "log", 4, conversations=20))
    first, second = (twin_workload(log, seed) for seed in (1, 2))
    assert first.spec_digest == second.spec_digest and first.digest != second.digest
    assert hit_rate([*words_of(first), *words_of(second)], 16) <= max(
        hit_rate(words_of(first), 16), hit_rate(words_of(second), 16)
    )


def test_a_replay_is_the_log_itself(tmp_path: Path) -> None:
    log = read_log(logs.agents(tmp_path / "log", 6, tasks=12))
    workload = materialise(replay_of(log, speed=2.0), 3)
    assert len(workload.requests) == len(log.requests)
    for logged, words, request in zip(log.requests, words_of(workload), workload.requests, strict=True):
        assert request.scheduled_s == pytest.approx(logged.at_s / 2)
        assert request.max_tokens == logged.output_tokens
        assert len(words) - len(request.messages) == logged.prompt_tokens
    blocks = [block for request in log.requests for block in request.blocks or ()]
    total = sum(request.prompt_tokens for request in log.requests)
    told = (len(blocks) - len(set(blocks))) * 16 / total
    # Up to the word that makes each prompt its own, and the two role words before it.
    assert hit_rate(words_of(workload), 16) == pytest.approx(told, abs=HIT_GOAL)


def test_thin_sharing_survives_the_sample(tmp_path: Path) -> None:
    """Prefixes that two or three requests share would be shared by dozens if each row simply kept its own."""
    log = read_log(logs.documents(tmp_path / "log", 2, documents=2500))
    conversations = conversations_of(log.requests)
    rows = shapes_of(conversations, most=300)
    assert len(rows.conversations) == 300
    spec = twin_of(log, conversations, most_rows=300)
    check = check_twin(conversations, spec, 5, block_tokens=512)
    assert check.hit_difference is not None and check.hit_difference <= HIT_GOAL


lengths = st.tuples(st.integers(1, 400), st.integers(1, 60))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from([0, 1, 1, 2, 3]), lengths), min_size=12, max_size=80), st.integers(0, 9))
def test_any_log_that_fits_whole_has_an_exact_twin(rows: list[tuple[int, tuple[int, int]]], seed: int) -> None:
    chance = random.Random(seed)
    fresh = iter(range(1000, 10**6))
    requests, at = [], 0.0
    for prefix, (own, output) in rows:
        at += chance.expovariate(1.0)
        prompt = prefix * 40 + own
        whole = prompt // 16
        shared = [prefix * 100 + place for place in range(min(prefix * 40 // 16, whole))]
        blocks = (*shared, *(next(fresh) for _ in range(whole - len(shared))))
        requests.append(LoggedRequest(at - 0.0, prompt, output, blocks))
    log = TraceLog(Path("x"), "made", tuple(requests), len(requests), 0, ())
    conversations = conversations_of(log.requests)
    check = check_twin(conversations, twin_of(log, conversations), seed, block_tokens=16)
    assert check.ks["prompt_tokens"] == check.ks["output_tokens"] == 0
    # A prompt that others hold whole gives up its last block, so that one token is its own.
    total = sum(request.prompt_tokens for request in requests)
    assert check.hit_difference is not None and check.hit_difference <= 16 * len(requests) / total
