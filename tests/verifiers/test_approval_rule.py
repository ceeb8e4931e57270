"""approval.bound: the edges that the gauntlet's cases don't stand on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from verifiers.evidence import Evidence
from verifiers.gauntlet.cases.approval import approved
from verifiers.gauntlet.edit import with_data, with_entries
from verifiers.gauntlet.honest import usual
from verifiers.rules.publication.approval_bound import GOOD_FOR_S, PARTS, verify


def test_an_approval_of_exactly_this_passes_and_so_does_a_run_that_needs_none() -> None:
    assert verify(approved()).status == verify(usual()).status == "PASS"
    assert "owner approved" in verify(approved()).sentence


@pytest.mark.parametrize("lost", ["approval", "approval.request"])
def test_without_an_answer_the_question_is_open(lost: str) -> None:
    unanswered = with_entries(approved(), lambda entries: [entry for entry in entries if entry.kind != lost])
    assert verify(unanswered).status == "ERROR"


def test_an_approval_that_nobody_asked_for_changes_nothing() -> None:
    free = with_data(
        approved(), "run.started", lambda e: {**e.data, "options": {**e.data["options"], "approval": "none"}}
    )
    assert verify(free).status == "PASS"


@pytest.mark.parametrize("part", PARTS)
def test_what_had_changed_when_it_was_answered_is_named(part: str) -> None:
    def moved(kind: str, field: str) -> Evidence:
        return with_data(approved(), kind, lambda e: {**e.data, field: {**e.data[field], part: "0" * 64}})

    assert PARTS[part] in verify(moved("approval", "now")).sentence
    assert verify(moved("approval", "now")).status == verify(moved("approval.request", "parts")).status == "FAIL"


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_the_answer_comes_after_the_request_and_within_a_week(order: tuple[int, int]) -> None:
    def moved(entries: Any) -> Any:
        *before, request, answer = entries
        pair = (request, answer)
        return [*before, *(pair[place] for place in order)]

    assert verify(with_entries(approved(), moved)).status == ("PASS" if order == (0, 1) else "FAIL")

    late = with_entries(approved(), lambda es: [*es[:-1], replace(es[-1], time=es[-1].time + GOOD_FOR_S, hash="")])
    assert "more than 7 days" in verify(late).sentence
