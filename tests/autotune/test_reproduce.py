"""Reproduce: a commit is confirmed again by the real graph, on launches that are played back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from agents.fixed import Fixed
from autotune.commands.reproduce import reproduce as command
from autotune.harness import Budget, Options, Outcome, RunDir, Silent, start
from autotune.report_card.scenario import Scenario, Trap, load_scenarios
from autotune.report_card.stage import laboratory_of, set_up
from autotune.reproduce import FOLDER, Reproduction, reproduce
from autotune.verify import verify_run
from tests.autotune.conftest import git
from tests.autotune.forged import copied, rechained
from tools.errors import UserError
from tools.ledger import Ledger
from tools.repo import commit_change
from tools.targets.knobs import Value

PATCH: dict[str, Value] = {"max_num_seqs": 8}
BUDGET = Budget(wall_s=3600, trials=1)


@dataclass(frozen=True)
class Committed:
    """A played run that ended in a commit."""

    scenario: Scenario
    file: Path
    outcome: Outcome
    branch: str

    @property
    def runs(self) -> Path:
        return self.outcome.run.path.parent

    def again(self, runs: Path, scenario: Scenario | None = None, commit: str = "") -> Reproduction:
        """Confirmed again on a machine with other luck."""
        laboratory = laboratory_of(scenario or self.scenario, seed=2)
        return reproduce(
            commit or self.branch, self.file, runs, Silent(), BUDGET, laboratory=laboratory, clock=laboratory.clock
        )


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Committed:
    scenario = next(one for one in load_scenarios() if one.id == "t01")
    folder = tmp_path_factory.mktemp("committed")
    file, laboratory = set_up(scenario, folder / "service"), laboratory_of(scenario, seed=1)
    options, proposer = Options(budget=BUDGET), Fixed(PATCH, "seats for the load")
    outcome = start(
        file, folder / "runs", options, Silent(), laboratory=laboratory, proposer=proposer, clock=laboratory.clock
    )
    assert outcome.decision == "tuned", outcome.sentence
    return Committed(scenario, file, outcome, "autotune/service/interactive-latency")


def test_a_true_gain_holds_again_on_seeds_that_nobody_saw(committed: Committed, tmp_path: Path) -> None:
    found = committed.again(committed.runs)
    assert (found.answer, found.exit_code, found.original) == ("holds", 0, committed.outcome.run.id), found.sentence
    assert found.ratio_then is not None and found.ratio_now is not None and found.ratio_now < 0.9
    assert found.ratio_then != found.ratio_now and found.differences == ()
    first, second = Ledger.read(committed.outcome.run.ledger), Ledger.read(Path(found.run) / "ledger.jsonl")
    seeds = [{b["seed"] for b in ledger.of_kind("plan")[0].data["plan"]["blocks"]} for ledger in (first, second)]
    assert not seeds[0] & seeds[1]
    again = verify_run(RunDir(Path(found.run)))
    assert (again.problems, again.verdict, again.anchored) == ((), "PASS", False)
    assert Path(found.run).parent == committed.runs / FOLDER
    assert git(committed.file.parent, "rev-list", "--count", f"main..{committed.branch}") == "1"


def test_without_the_runs_folder_the_commit_itself_says_what_to_compare(committed: Committed, tmp_path: Path) -> None:
    found = committed.again(tmp_path / "elsewhere")
    assert (found.answer, found.ratio_then) == ("holds", None), found.sentence
    assert "isn't here" in found.record[0]


def test_a_config_that_no_longer_runs_does_not_hold(committed: Committed, tmp_path: Path) -> None:
    trap = Trap(knob="max_num_seqs", at_least=8, kind="oom", message="out of memory", log_tail="")
    found = committed.again(tmp_path / "runs", committed.scenario.model_copy(update={"traps": (trap,)}))
    assert (found.answer, found.exit_code) == ("doesn't hold", 2)
    assert "oom" in found.sentence


def test_a_commit_that_was_never_a_gain_does_not_hold(committed: Committed, tmp_path: Path) -> None:
    start = {**dict(committed.scenario.start), "max_num_seqs": 8}
    scenario = committed.scenario.model_copy(update={"start": start})
    file = set_up(scenario, tmp_path / "service")
    worse = file.read_text().replace("max_num_seqs: 8", "max_num_seqs: 1")
    trailers = {"Autotune-Run": "service-20260101-000000-aaaaaa"}
    made = commit_change({file: worse}, "autotune/service/x", "Tune service", trailers, 1_780_000_000)
    laboratory = laboratory_of(scenario, seed=3)
    found = reproduce(
        made.sha, file, tmp_path / "runs", Silent(), BUDGET, laboratory=laboratory, clock=laboratory.clock
    )
    assert (found.answer, found.exit_code) == ("doesn't hold", 2), found.sentence
    assert found.ratio_now is not None and found.ratio_now > 2


def test_a_record_that_does_not_hold_is_no_ground_to_launch_anything(committed: Committed, tmp_path: Path) -> None:
    forged = copied(committed.outcome.run, tmp_path / "runs" / committed.outcome.run.id)

    def flatter(entry: Any, data: dict[str, Any]) -> None:
        if entry.kind == "trial" and data["id"] == "c2":
            data["summary"]["p95_ttft_ms"] = 0.1

    rechained(forged, flatter)
    found = committed.again(tmp_path / "runs")
    assert (found.answer, found.exit_code, found.run) == ("doesn't hold", 2, "")
    assert not (tmp_path / "runs" / FOLDER).exists()


@pytest.mark.parametrize(
    ("name", "match"), [("main", "Autotune-Run"), ("nonsense", "none called"), ("--all", "none called")]
)
def test_a_commit_that_is_not_ours_is_refused(committed: Committed, name: str, match: str) -> None:
    with pytest.raises(UserError, match=match):
        committed.again(committed.runs, commit=name)


def test_the_command_says_it_in_one_json_object_and_its_exit_code(
    committed: Committed, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []

    def played(*arguments: Any, **options: Any) -> Reproduction:
        told.append({"arguments": arguments, **options})
        return Reproduction("c" * 40, "r", "runs/x", "can't tell", "too noisy", "p95_ttft_ms", 0.5, 0.9, (), ())

    monkeypatch.setattr("autotune.reproduce.reproduce", played)
    app = typer.Typer()
    app.command()(command)
    done: Callable[..., Any] = CliRunner().invoke
    plain = done(app, [committed.branch, "--repo", str(committed.file.parent), "--budget", "30m"])
    assert plain.exit_code == 3 and "0.500 when it was committed, 0.900 now" in plain.stdout
    as_json = done(app, [committed.branch, "--json"])
    assert '"answer": "can\'t tell"' in as_json.stdout and '"exit_code": 3' in as_json.stdout
    assert told[0]["arguments"][-1] == Budget(wall_s=1800, trials=1)
