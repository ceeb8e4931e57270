"""Each fault that advice can have is found by its own rule, with the facts; what is shipped has none of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents import load_playbook
from agents.playbook import playbook_names
from agents.playbook_check import CHECKS, Finding, check_playbook
from agents.situations import Situation
from autotune.playbook_situations import engine_spaces, playbook_situations

ALWAYS = {"when": "true", "expect": {"p95_ttft_ms": "lower"}, "why": "It is so."}


@pytest.fixture(scope="module")
def drawn() -> Iterator[tuple[Situation, ...]]:
    with playbook_situations(400) as situations:
        yield situations


def found(tmp_path: Path, drawn: tuple[Situation, ...], *rows: dict[str, Any]) -> tuple[Finding, ...]:
    hypotheses = [{"id": f"h{index}", **ALWAYS, **row} for index, row in enumerate(rows)]
    data = {"name": "mine", "goal": "g", "allowed_actions": ["propose"], "verifiers": ["policy"]}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**data, "hypotheses": hypotheses}))
    return check_playbook(load_playbook(path), engine_spaces(), drawn[:120])


def test_the_shipped_playbooks_are_sound(drawn: tuple[Situation, ...]) -> None:
    spaces = engine_spaces()
    problems = [
        problem
        for name in playbook_names()
        for problem in check_playbook(load_playbook(name), spaces, drawn[:60], drawn[60:])
    ]
    assert problems == []


def test_situations_are_the_same_for_the_same_seed_and_their_baselines_start(drawn: tuple[Situation, ...]) -> None:
    assert all(situation.starts(situation.view.baseline) == "" for situation in drawn)
    assert {situation.engine for situation in drawn} == engine_spaces().keys()
    with playbook_situations(400) as again:
        assert [s.view.workload for s in again] == [s.view.workload for s in drawn]
        assert [s.view.baseline for s in again] == [s.view.baseline for s in drawn]


def test_a_step_budget_that_is_a_cache_size_is_caught(tmp_path: Path, drawn: tuple[Situation, ...]) -> None:
    """ai-dynamo/dynamo#13557: max_num_batched_tokens ~ max_num_seqs x average length."""
    length = "(workload.mean_prompt_tokens + workload.mean_output_tokens)"
    for product in (f"config.max_num_seqs * {length}", f"pow2({length} * config.max_num_seqs / 2)"):
        problems = found(tmp_path, drawn, {"try": {"max_num_batched_tokens": product}})
        assert "budget" in {problem.rule for problem in problems}
    sum_ = f"pow2({length} + config.max_num_seqs)"
    assert "budget" not in {p.rule for p in found(tmp_path, drawn, {"try": {"max_num_batched_tokens": sum_}})}
    cache = f"config.max_num_seqs * {length}"
    assert "budget" not in {p.rule for p in found(tmp_path, drawn, {"try": {"kv_cache_tokens": cache}})}


@pytest.mark.parametrize(
    ("rule", "rows"),
    [
        ("knobs", [{"try": {"max_num_sequences": 8}}]),
        ("knobs", [{"for": ["llamacpp"], "try": {"max_num_seqs": 8}}]),
        ("value", [{"try": {"max_num_seqs": 1_000_000}}]),
        ("value", [{"try": {"quantization": "'int2'"}}]),
        ("value", [{"for": ["vllm"], "try": {"quantization": "'int8'"}}]),
        ("sense", [{"when": "config.dtype > 3", "try": {"block_size": 32}}]),
        ("sense", [{"try": {"block_size": "64 / (config.num_threads - config.num_threads)"}}]),
        ("reach", [{"when": "config.max_num_seqs > 512", "try": {"max_num_seqs": 8}}]),
        ("reach", [{"when": "config.max_num_seqs == 8", "try": {"max_num_seqs": 8}}]),
        ("start", [{"try": {"kv_cache_tokens": "most.kv_cache_tokens", "max_num_batched_tokens": 16384}}]),
        ("start", [{"alone": True, "try": {"max_num_batched_tokens": 16}}]),
        ("start", [{"for": ["vllm"], "try": {"max_num_seqs": "config.max_num_batched_tokens * 2"}}]),
        (
            "circle",
            [
                {"when": "config.block_size == 16", "try": {"block_size": 32}},
                {"when": "config.block_size == 32", "try": {"block_size": 16}},
            ],
        ),
        (
            "circle",
            [
                {"when": "config.block_size == 32", "try": {"block_size": 16}},
                {"when": "config.block_size == 64", "try": {"block_size": 32}},
                {"when": "config.block_size == 16", "try": {"block_size": 64}},
            ],
        ),
    ],
)
def test_a_fault_is_found_by_its_rule(
    tmp_path: Path, drawn: tuple[Situation, ...], rule: str, rows: list[dict[str, Any]]
) -> None:
    problems = found(tmp_path, drawn, *rows)
    assert rule in {problem.rule for problem in problems}
    assert {problem.rule for problem in problems} <= CHECKS.keys()
    for problem in problems:
        assert problem.playbook == "mine" and problem.sentence
        if problem.rule in ("start", "circle", "sense"):
            assert {"config", "workload", "hardware", "about"} <= problem.facts.keys()


def test_faults_are_told_once_and_an_experiment_may_be_refused_now_and_then(
    tmp_path: Path, drawn: tuple[Situation, ...]
) -> None:
    whole = {"when": "config.quantization != 'none'", "try": {"quantization": "'none'"}}
    at_once = found(tmp_path, drawn, {"try": {"max_num_seqs": "config.max_num_batched_tokens * 2"}})
    assert [problem.rule for problem in at_once].count("start") == len({p.hypotheses for p in at_once})
    assert found(tmp_path, drawn, {"alone": True, **whole}) == ()
