"""Verify: a record that was touched is noticed, wherever and however it was; an honest one holds."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.verify import verify_run
from tests.autotune.conftest import Tuned
from tests.autotune.forged import FORGERIES, copied, flipped_byte, rechained
from tools.ledger import Entry, Ledger
from tools.repo import read_trailers

BRANCH = "autotune/tiny-chat/interactive-latency"


def test_the_commit_names_its_record_its_judges_and_its_machine(tuned: Tuned) -> None:
    ledger = Ledger.read(tuned.run.ledger)
    trailers = read_trailers(tuned.deployment, BRANCH)
    publication, survey, plan = (ledger.find(key) for key in ("publication", "survey", "plan"))
    assert publication is not None and survey is not None and plan is not None
    assert trailers == {
        "Autotune-Run": tuned.run.id,
        "Autotune-Plan": plan.data["plan_digest"],
        "Autotune-Ledger": publication.hash,
        "Autotune-Verifiers": publication.data["verifiers_digest"],
        "Autotune-Environment": survey.data["environment"],
    }
    assert [entry.kind for entry in ledger][-6:] == [
        "verdict",
        "harness",
        "change",
        "publication",
        "commit",
        "run.finished",
    ]


def test_every_judgement_of_an_honest_record_is_derived_anew(tuned: Tuned) -> None:
    found = verify_run(tuned.run)
    assert (found.problems, found.verdict, found.anchored) == ((), "PASS", True)


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_record_is_noticed(tuned: Tuned, tmp_path: Path, name: str) -> None:
    for seed in range(1 if "re-chained" in name else 4):
        forged = copied(tuned.run, tmp_path / str(seed))
        told = FORGERIES[name](forged, random.Random(seed))
        found = verify_run(forged)
        assert found.problems and not found.anchored, told


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**64))
def test_no_byte_of_the_record_can_be_flipped(tuned: Tuned, tmp_path: Path, seed: int) -> None:
    place = tmp_path / "forged"
    shutil.rmtree(place, ignore_errors=True)
    forged = copied(tuned.run, place)
    told = flipped_byte(forged, random.Random(seed))
    assert verify_run(forged).problems, told


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("preflight", "memory_need_bytes", 1),
        ("judgement", "status", "FAIL"),
        ("look", "decision", "go_on"),
        ("verdict", "score", 1.0),
        ("change", "message", "Tune it: 900 % better"),
        ("run.finished", "sentence", "PASS: by far."),
    ],
)
def test_what_does_not_follow_from_the_raw_records_is_named(
    tuned: Tuned, tmp_path: Path, kind: str, field: str, value: Any
) -> None:
    forged = copied(tuned.run, tmp_path / "forged")

    def change(entry: Entry, data: dict[str, Any]) -> None:
        if entry.kind == kind:
            data[field] = value

    rechained(forged, change)
    problems = verify_run(forged).problems
    assert any("anchor" not in problem for problem in problems), problems


def test_a_commit_that_claims_a_run_is_found_without_the_ledgers_word(tuned: Tuned, tmp_path: Path) -> None:
    forged = copied(tuned.run, tmp_path / "forged")
    rechained(forged, lambda entry, data: None, without=("commit",))
    assert any("rebuilt" in problem or "ended" in problem for problem in verify_run(forged).problems)


def test_a_record_of_nonsense_is_refused_in_a_sentence(tuned: Tuned, tmp_path: Path) -> None:
    forged = copied(tuned.run, tmp_path / "forged")

    def change(entry: Entry, data: dict[str, Any]) -> None:
        if entry.kind == "trial":
            data.pop("config")

    rechained(forged, change)
    assert any("makes no sense" in problem for problem in verify_run(forged).problems)
