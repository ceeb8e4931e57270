"""The tests of the tests: each attack is refused by its own rule, honest runs by none, and every rule is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tools.ledger import GENESIS
from verifiers.catalogue import RULES, STAGES
from verifiers.evidence import Evidence
from verifiers.gate import judge
from verifiers.gather import gather
from verifiers.gauntlet.case import Case, Control, Exam, Refusal, examine
from verifiers.gauntlet.cases import CASES
from verifiers.gauntlet.classes import CLASSES, WAITING
from verifiers.gauntlet.controls import CONTROLS
from verifiers.gauntlet.edit import candidates, with_measurement
from verifiers.gauntlet.honest import usual
from verifiers.gauntlet.outcome import Attacked, Outcome
from verifiers.gauntlet.recall import Recall
from verifiers.gauntlet.servers import LIARS
from verifiers.gauntlet.tape import Held
from verifiers.verdict import error


def one_each() -> Iterator[Case]:
    """The first case of each rule and of each class: enough to see that all are needed and none is missing."""
    rules, classes = set[str](), set[str]()
    for case in CASES:
        if case.rule not in rules or case.attack not in classes:
            yield case
        rules.add(case.rule)
        classes.add(case.attack)


EACH = tuple(one_each())


@pytest.fixture(scope="module")
def recall() -> Recall:
    return Recall()


@pytest.fixture(scope="module")
def exams(recall: Recall) -> dict[str, Exam]:
    return {case.id: examine(case.build(), recall) for case in EACH}


@pytest.mark.parametrize("case", EACH, ids=lambda case: case.id)
def test_an_attack_is_refused_by_its_own_rule(case: Case, exams: dict[str, Exam]) -> None:
    exam = exams[case.id]
    told = Attacked(case.id, case.attack, case.rule, case.lie, "record", exam)
    assert told.caught, f"{case.lie}: {case.rule} let it pass"
    assert exam.refusals[case.rule].verdict.sentence


def test_without_any_one_rule_some_attack_is_accepted(exams: dict[str, Exam]) -> None:
    idle = [rule.id for rule in RULES if not any(exams[case.id].accepted(without=rule.id) for case in EACH)]
    assert not idle, f"these could be left out, and nothing more would be accepted: {idle}"
    assert not [case.id for case in EACH if exams[case.id].accepted()]


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.id)
def test_an_honest_run_is_refused_for_no_wrong_reason(control: Control, recall: Recall) -> None:
    exam = examine(control.build(), recall)
    wrong = {rule: refusal.verdict.sentence for rule, refusal in exam.refusals.items() if rule not in control.allowed}
    assert not wrong, control.what
    assert not control.must_refuse or exam.refused_by & control.must_refuse, f"{control.what}: accepted"


def test_every_class_has_a_case_or_names_what_it_waits_for() -> None:
    covered = {case.attack for case in CASES} | {liar.attack for liar in LIARS}
    assert covered | WAITING.keys() == set(CLASSES) and len(CLASSES) == 58
    assert not covered & WAITING.keys()
    assert not [name for name in WAITING if name[0] in "ABC" or name in {f"D0{n}" for n in range(1, 8)}]


def test_ids_are_unique_neutral_and_of_rules_that_exist() -> None:
    ids = [each.id for each in (*CASES, *LIARS, *CONTROLS)]
    assert len(set(ids)) == len(ids) and all(len(each) == 3 and each[1:].isdigit() for each in ids)
    known = {rule.id for rule in RULES}
    assert {case.rule for case in CASES} == known and {liar.rule for liar in LIARS} <= known
    assert len(CONTROLS) >= 20


def test_the_honest_run_is_what_gather_reads_from_its_ledger() -> None:
    evidence = usual()
    blobs = {
        entry.data["raw_blob"]: {"measurement": trial.measurement.to_json(), "evals": _evals(trial)}
        for entry in evidence.of_kind("trial")
        for trial in (*evidence.search, *evidence.trials, *evidence.extra)
        if trial.id == entry.data["id"] and trial.measurement is not None
    }
    assert gather(Held(evidence.entries, blobs)) == evidence


def _evals(trial: object) -> object:
    evals = getattr(trial, "evals", None)
    return evals.to_json() if evals is not None else None


def test_a_lie_leaves_a_whole_chain_behind() -> None:
    told = with_measurement(usual(), candidates, lambda measurement: replace(measurement, window_s=1.0))
    prev = GENESIS
    for number, entry in enumerate(told.entries):
        assert (entry.seq, entry.prev) == (number, prev)
        assert type(entry).seal(entry.seq, entry.time, entry.kind, entry.key, entry.data, entry.prev) == entry
        prev = entry.hash
    assert told.entries != usual().entries and all(t.recorded_summary == t.summary for t in told.trials)


def test_what_is_recalled_is_what_would_be_said_anew(recall: Recall) -> None:
    case = next(case for case in CASES if case.id == "k03")
    evidence: Evidence = case.build()
    anew, recalled = examine(evidence), examine(evidence, recall)
    assert anew.refusals == recalled.refusals == examine(evidence, recall).refusals
    verdicts = judge("confirm", evidence, exhaustive=True).verdicts
    assert {v.rule for v in verdicts if v.status != "PASS"} == anew.refused_by
    assert len(verdicts) == len(STAGES["confirm"])


def test_leaving_its_rule_out_of_the_gate_lets_the_attack_through() -> None:
    case = next(case for case in CASES if case.id == "k01")
    assert judge("confirm", case.build()).status == "FAIL"
    assert judge("confirm", case.build(), without=frozenset({case.rule})).status == "PASS"


def test_an_outcome_names_what_is_not_as_it_must_be() -> None:
    passed = Attacked("k99", "A01", "cache.prefix_hits", "nothing", "record", Exam({}))
    outcome = Outcome((passed,), (), complete=True)
    assert [one.id for one in outcome.missed] == ["k99"] and not outcome.holds
    assert set(outcome.idle) == {rule.id for rule in RULES} and "A01" in outcome.uncovered
    assert not Outcome((passed,), (), complete=False).idle


@pytest.mark.parametrize(("rule", "caught"), [("cache.prefix_hits", False), ("data.complete", True)])
def test_a_question_that_could_not_be_asked_has_caught_nothing(rule: str, caught: bool) -> None:
    exam = Exam({rule: Refusal("confirm", error(rule, "the evidence isn't as the harness writes it"))})
    assert Attacked("k99", "A01", rule, "nothing", "record", exam).caught is caught


def test_the_page_for_users_lists_every_class_with_its_rules_and_what_waits() -> None:
    page = (Path(__file__).parents[3] / "docs" / "gauntlet.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    for each in (*CASES, *LIARS):
        assert any(row.startswith(f"| {each.attack} ") and f"`{each.rule}`" in row and each.id in row for row in rows)
    assert all(any(row.startswith(f"| {name} ") and room in row for row in rows) for name, room in WAITING.items())
