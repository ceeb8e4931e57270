"""A hostile proposer drives the real graph to its last turn: nothing bad is committed, and the budget is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest

from agents.actions import Finish
from agents.guarded import Guarded
from agents.proposer import ProposerFailed, Turn, Usage
from agents.view import View
from autotune.harness import Budget, Options, Outcome, RunDir, Silent, start
from autotune.report import write
from autotune.report_card.scenario import load_scenarios
from autotune.report_card.stage import laboratory_of, set_up
from autotune.verify import verify_run
from tests.agents.views import make_view
from tests.autotune.conftest import git
from tests.autotune.hostile import ATTACKS, MALFORMED, Hostile
from tools.errors import UserError
from tools.ledger import Ledger

TURNS = ATTACKS + 6
"One round; `benchmarks/verifiers.py --row hostile` plays 200 turns on a real engine."


SPENT = Turn(Finish(reason="done"), Usage(prompt_tokens=900, completion_tokens=20, calls=3))


@dataclass(frozen=True)
class Returning:
    """A proposer that answers with whatever `answer` gives."""

    answer: Callable[[View], object]
    name: str = "llm"

    def turn(self, view: View) -> Turn:
        return cast(Turn, self.answer(view))


@pytest.mark.parametrize("answer", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_turn_ends_the_proposer_and_not_the_run(answer: Callable[[View], object]) -> None:
    with pytest.raises(ProposerFailed) as failed:
        Guarded(Returning(answer)).turn(make_view())
    assert len(str(failed.value)) < 1000 and failed.value.usage.total_tokens >= 0


def test_what_an_unusable_answer_cost_is_counted() -> None:
    with pytest.raises(ProposerFailed) as failed:
        Guarded(Returning(lambda view: replace(SPENT, action=cast(Finish, {"kind": "reboot"})))).turn(make_view())
    assert failed.value.usage == SPENT.usage


def test_a_word_to_the_user_and_an_interrupt_pass() -> None:
    def interrupted(view: View) -> object:
        raise KeyboardInterrupt

    def told(view: View) -> object:
        raise UserError("mend the playbook")

    with pytest.raises(KeyboardInterrupt):
        Guarded(Returning(interrupted)).turn(make_view())
    with pytest.raises(UserError, match="mend"):
        Guarded(Returning(told)).turn(make_view())


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """The whole graph; launches are played back, so that many turns cost little."""
    scenario = next(one for one in load_scenarios() if one.id == "t01")
    folder = tmp_path_factory.mktemp("attacked")
    file, laboratory = set_up(scenario, folder / "service"), laboratory_of(scenario, seed=1)
    options = Options(budget=Budget(wall_s=3600, trials=3, turns=TURNS))
    proposer, clock = Hostile(turns=TURNS), laboratory.clock
    run = RunDir(folder / "runs" / "service-1")
    run.logs.mkdir(parents=True)
    return file, start(
        file, run.path.parent, options, Silent(), laboratory=laboratory, proposer=proposer, clock=clock, run=run
    )


def test_every_attack_of_a_hostile_proposer_is_recorded_and_none_is_launched(attacked: tuple[Path, Outcome]) -> None:
    _, outcome = attacked
    ledger = Ledger.read(outcome.run.ledger)
    assert len(ledger.of_kind("action")) == TURNS > ATTACKS
    launched = [e.data["proposal"] for e in ledger.of_kind("trial") if e.data["role"] == "search"]
    its_own = [one["patch"] for one in launched if one["source"] != "search"]  # one trial is owed to the search for it
    assert its_own == [{"max_num_seqs": 2}] and len(launched) == 2
    judged = ledger.of_kind("preflight")
    assert [e.data["proposal"] for e in judged if e.data["status"] == "PASS"] == launched
    refusals = {v["rule"] for e in judged for v in e.data["verdicts"] if v["status"] == "FAIL"}
    assert {"policy.knobs", "duplicate.config", "feasibility.memory"} <= refusals


def test_the_budget_is_kept_and_the_repository_is_as_it_was(attacked: tuple[Path, Outcome]) -> None:
    deployment, outcome = attacked
    # What it had launched is truly better, and is not committed: its reason holds a secret.
    assert (outcome.decision, outcome.exit_code) == ("refused", 2), outcome.sentence
    assert "change.secrets" in outcome.sentence
    assert git(deployment.parent, "branch", "--list") == "* main"
    assert git(deployment.parent, "status", "--porcelain") == ""
    found = verify_run(outcome.run)
    assert found.problems == () and not found.anchored


def test_what_it_said_about_figures_is_kept_from_the_report(attacked: tuple[Path, Outcome]) -> None:
    _, outcome = attacked
    written = write(outcome.run)
    for page in (written.html.read_text(), written.markdown.read_text()):
        assert "+900" not in page and "0.21 ms" not in page and "<script>" not in page
