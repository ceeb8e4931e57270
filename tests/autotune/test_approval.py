"""Approvals: a run waits for a person, and commits exactly what they approved, once, or nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from pydantic import ValidationError
from typer.testing import CliRunner

from agents.expert import Expert
from agents.playbook import load_playbook
from autotune.approve import asked_by, given
from autotune.commands.approve import approve
from autotune.harness import Budget, Options, Outcome, RunDir, Silent, resume, start
from autotune.harness.answer import Answer
from autotune.report_card.replay import ReplayLaboratory
from autotune.report_card.scenario import load_scenarios
from autotune.report_card.stage import laboratory_of, set_up
from autotune.verify import verify_run
from tests.autotune.conftest import git
from tools.errors import UserError
from tools.ledger import Ledger
from tools.repo import read_trailers
from verifiers.rules.publication.approval_bound import GOOD_FOR_S

BRANCH = "autotune/service/interactive-latency"


Begun = tuple[Path, ReplayLaboratory, Outcome]


@dataclass(frozen=True)
class Waiting:
    """A run that waits for an approval, and where it stands."""

    deployment: Path
    run: RunDir
    laboratory: ReplayLaboratory

    def answer(
        self,
        answer: Answer | None,
        observe: Callable[[str, str], None] = lambda boundary, key: None,
        later_s: float = 0.0,
    ) -> Outcome:
        def clock() -> float:
            return self.laboratory.clock() + later_s

        return resume(self.run, Silent(), observe=observe, answer=answer, laboratory=self.laboratory, clock=clock)

    def yes(self) -> Answer:
        return given(self.run, digest=asked_by(self.run).digest, reject=None, by="Owner <owner@localhost>")

    @property
    def commits(self) -> int:
        """On the branch of the change; 0 where there is none."""
        if not git(self.deployment.parent, "branch", "--list", BRANCH):
            return 0
        return int(git(self.deployment.parent, "rev-list", "--count", f"main..{BRANCH}"))


def begun(place: Path, observe: Callable[[str, str], None] = lambda boundary, key: None) -> Begun:
    """A run that has to be approved, up to where it waits."""
    scenario = next(one for one in load_scenarios() if one.id == "t01")
    file, laboratory = set_up(scenario, place / "service"), laboratory_of(scenario, seed=1)
    outcome = start(
        file,
        place / "runs",
        Options(budget=Budget(wall_s=3600, trials=3), approval="required"),
        Silent(),
        observe,
        laboratory=laboratory,
        proposer=Expert(load_playbook("interactive-latency")),
        clock=laboratory.clock,
    )
    return file, laboratory, outcome


@pytest.fixture(scope="module")
def asked_for(tmp_path_factory: pytest.TempPathFactory) -> tuple[Waiting, Path]:
    """The run as it waits, and a copy of its folder. Launches are played back, everything else is real."""
    root = tmp_path_factory.mktemp("approval")
    file, laboratory, outcome = begun(root / "place")
    assert (outcome.decision, outcome.exit_code) == ("waiting", 4), outcome.sentence
    assert f"autotune approve {outcome.run.id} --digest {asked_by(outcome.run).digest}" in outcome.sentence
    shutil.copytree(root / "place", root / "kept")
    return Waiting(file, outcome.run, laboratory), root / "kept"


@pytest.fixture
def waiting(asked_for: tuple[Waiting, Path]) -> Iterator[Waiting]:
    """The run as it waits, put back to that before each test, in the same place."""
    run, kept = asked_for
    place = run.deployment.parents[1]
    shutil.rmtree(place)
    shutil.copytree(kept, place)
    yield run


def test_nothing_is_written_before_an_answer_and_asking_again_asks_the_same(waiting: Waiting) -> None:
    before = asked_by(waiting.run)
    assert waiting.commits == 0 and git(waiting.deployment.parent, "status", "--porcelain") == ""
    again = waiting.answer(None)
    assert (again.decision, again.exit_code) == ("waiting", 4)
    assert asked_by(waiting.run) == before and before.changes and "PASS" in before.message


def test_what_is_approved_is_committed_once_and_the_commit_says_by_whom(waiting: Waiting) -> None:
    answer = waiting.yes()
    outcome = waiting.answer(answer)
    assert (outcome.decision, outcome.exit_code) == ("tuned", 0), outcome.sentence
    trailers = read_trailers(waiting.deployment, BRANCH)
    assert trailers["Autotune-Approved-By"] == "Owner <owner@localhost>"
    assert trailers["Autotune-Approval"] == answer.digest
    assert trailers["Autotune-Approved-At"].endswith("+00:00")
    verification = verify_run(waiting.run)
    assert (verification.problems, verification.anchored) == ((), True)

    same = given(waiting.run, digest=answer.digest, reject=None, by="Owner <owner@localhost>")
    assert waiting.answer(same) == outcome and waiting.commits == 1
    with pytest.raises(UserError, match="answered already: approve"):
        given(waiting.run, digest=None, reject="too late", by="Owner")
    with pytest.raises(UserError, match="has answered: approve"):
        asked_by(waiting.run)


ODD: tuple[dict[str, object], ...] = (
    {"decision": "yes"},
    {"decision": True},
    {"digest": ""},
    {"by": ""},
    {"by": "Owner\nAutotune-Run: another"},
    {"why": "x" * 401},
    {"signed": True},
)


def test_an_answer_of_another_shape_is_refused_and_the_run_waits_on(waiting: Waiting) -> None:
    right = waiting.yes().model_dump()
    for odd in ODD:
        with pytest.raises(ValidationError):
            Answer.model_validate({**right, **odd})
    with pytest.raises(ValidationError):
        waiting.answer(Answer.model_construct(**{**right, "decision": "yes"}))
    assert waiting.commits == 0 and asked_by(waiting.run).digest == right["digest"]


def test_an_answer_to_anything_else_than_what_is_there_now_is_void_and_the_run_waits_on(waiting: Waiting) -> None:
    def void(answer: Answer, later_s: float = 0.0) -> str:
        outcome = waiting.answer(answer, later_s=later_s)
        assert outcome.decision == "waiting" and outcome.sentence.startswith("the answer was void: ")
        assert waiting.commits == 0 and Ledger.read(waiting.run.ledger).find("approval") is None
        return outcome.sentence

    with pytest.raises(UserError, match="isn't that of what is asked now"):
        given(waiting.run, digest="0" * 64, reject=None, by="Owner")
    assert "the answer is to 000000000000" in void(Answer(decision="approve", digest="0" * 64, by="Owner"))

    text, root = waiting.deployment.read_text(), waiting.deployment.parent
    waiting.deployment.write_text(text + "# a note\n")
    assert "the change changed since it was asked" in void(waiting.yes())
    waiting.deployment.write_text(text)

    (root / "notes").write_text("of somebody else\n")
    git(root, "add", "notes")
    git(root, "commit", "--quiet", "-m", "Note")
    assert "the base commit changed since it was asked" in void(waiting.yes())
    git(root, "reset", "--quiet", "--hard", "HEAD^")

    assert "older than 7 days" in void(waiting.yes(), later_s=GOOD_FOR_S + 60)

    # It may be turned down at any time, once and for all.
    outcome = waiting.answer(given(waiting.run, digest=None, reject="not before the launch", by="Owner"))
    assert (outcome.decision, outcome.exit_code) == ("refused", 2)
    assert "approval.bound: rejected by Owner: not before the launch" in outcome.sentence
    assert waiting.commits == 0 and len(Ledger.read(waiting.run.ledger).of_kind("approval.void")) == 4
    with pytest.raises(UserError, match="answered already: reject"):
        given(waiting.run, digest=None, reject=None, by="Owner")


@pytest.mark.parametrize("place", ["acted approval", "acted commit"])
def test_killed_anywhere_after_the_answer_it_is_committed_once(waiting: Waiting, place: str) -> None:
    def kill(boundary: str, key: str) -> None:
        if f"{boundary} {key}" == place:
            os.kill(os.getpid(), signal.SIGKILL)

    answer = waiting.yes()
    child = os.fork()
    if child == 0:
        waiting.answer(answer, kill)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    outcome = waiting.answer(None)
    assert outcome.decision == "tuned" and waiting.commits == 1
    assert len(Ledger.read(waiting.run.ledger).of_kind("approval")) == 1


def test_what_is_said_last_counts_where_nothing_was_recorded_before(waiting: Waiting) -> None:
    stop = waiting.run.path / "STOP"
    stop.touch()
    assert waiting.answer(waiting.yes()).decision == "stopped"
    stop.unlink()
    outcome = waiting.answer(given(waiting.run, digest=None, reject="on second thoughts", by="Owner"))
    assert (outcome.decision, waiting.commits) == ("refused", 0), outcome.sentence
    assert "on second thoughts" in outcome.sentence


def test_an_answer_counts_though_the_run_was_stopped_between_asking_and_waiting(tmp_path: Path) -> None:
    def stop(boundary: str, key: str) -> None:
        if (boundary, key) == ("recorded", "approval.request"):
            raise KeyboardInterrupt

    file, laboratory, outcome = begun(tmp_path, stop)
    assert outcome.decision == "stopped"
    stopped = Waiting(file, outcome.run, laboratory)
    assert stopped.answer(stopped.yes()).decision == "tuned" and stopped.commits == 1


def test_it_can_be_turned_down_though_the_repository_is_gone(waiting: Waiting) -> None:
    (waiting.deployment.parent / ".git").rename(waiting.deployment.parents[1] / "moved")
    answer = given(waiting.run, digest=None, reject="it moved", by="Owner")
    assert waiting.answer(answer).decision == "refused"
    assert [e.data["decision"] for e in Ledger.read(waiting.run.ledger).of_kind("approval")] == ["reject"]


def test_the_command_shows_what_is_asked(waiting: Waiting) -> None:
    app = typer.Typer()
    app.command()(approve)
    shown = CliRunner().invoke(app, [str(waiting.run.path)])
    assert shown.exit_code == 0 and f"--digest {asked_by(waiting.run).digest}" in shown.output
    as_json = CliRunner().invoke(app, [str(waiting.run.path), "--json"])
    assert json.loads(as_json.output)["changes"] == asked_by(waiting.run).to_json()["changes"]
    with pytest.raises(UserError, match="digest"):
        CliRunner().invoke(app, [str(waiting.run.path), "--digest", "0" * 64], catch_exceptions=False)
