"""A deployment whose config stands in a manifest too: both change in one commit, and whatever differs is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agents.fixed import Fixed
from autotune.anchor import anchor_of
from autotune.committed_change import committed_change
from autotune.harness import Budget, Options, Outcome, Silent, start
from autotune.report_card.replay import ReplayLaboratory
from autotune.report_card.scenario import load_scenarios
from autotune.report_card.stage import laboratory_of, set_up
from autotune.verify import verify_run
from tests.autotune.conftest import git
from tools.errors import UserError
from tools.ledger import Entry, Ledger
from tools.manifests import YamlFile
from tools.repo import commit_change, files_changed
from verifiers import Change

SHARED = ("max_num_seqs", "max_num_batched_tokens", "enable_prefix_caching")
"Knobs of the recorded engine that vLLM calls by the same names."
COMPOSE = """\
# deployed from here
services:
  chat:
    image: vllm/vllm-openai:v0.32.0
    command: >-
      --model=smol
      --max-num-seqs 1
      --max-num-batched-tokens 256
      --enable-prefix-caching
"""
BRANCH = "autotune/service/interactive-latency"
BUDGET = Budget(wall_s=3600, trials=1)


def staged(place: Path) -> tuple[Path, ReplayLaboratory]:
    """A deployment of the engine that the manifest beside it starts, played back from a recording."""
    scenario = next(one for one in load_scenarios() if one.id == "t01")
    file = set_up(scenario, place / "service")
    data = YamlFile.read(file).data
    left = [name for name in data["config"] if name not in SHARED]
    lines = [line for line in file.read_text().splitlines() if line.strip().split(":")[0] not in left]
    file.write_text("\n".join([*lines, "target: vllm", "manifest: compose.yaml", ""]))
    file.with_name("compose.yaml").write_text(COMPOSE)
    git(file.parent, "add", ".")
    git(file.parent, "commit", "--quiet", "-m", "Deploy from compose")
    return file, laboratory_of(scenario, seed=1)


def tuned(place: Path) -> tuple[Path, Outcome]:
    file, laboratory = staged(place)
    options, proposer = Options(budget=BUDGET), Fixed({"max_num_seqs": 8}, "seats for the load")
    return file, start(
        file, place / "runs", options, Silent(), laboratory=laboratory, proposer=proposer, clock=laboratory.clock
    )


@dataclass(frozen=True)
class Committed:
    file: Path
    outcome: Outcome


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Committed:
    file, outcome = tuned(tmp_path_factory.mktemp("both"))
    assert outcome.decision == "tuned", outcome.sentence
    return Committed(file, outcome)


def entry(committed: Committed, key: str) -> Entry:
    found = Ledger.read(committed.outcome.run.ledger).find(key)
    assert found is not None
    return found


def test_both_files_change_in_one_commit_and_in_one_value_each(committed: Committed) -> None:
    root = committed.file.parent
    assert files_changed(committed.file, BRANCH) == ["compose.yaml", "deployment.yaml"]
    assert git(root, "show", f"{BRANCH}:compose.yaml") + "\n" == COMPOSE.replace("seqs 1", "seqs 8")
    numbers = git(root, "diff", "--numstat", "main", BRANCH).splitlines()
    assert numbers == ["1\t1\tcompose.yaml", "1\t1\tdeployment.yaml"]
    assert git(root, "status", "--porcelain") == "" and committed.file.with_name("compose.yaml").read_text() == COMPOSE


def test_the_record_holds_every_text_of_both_and_is_anchored(committed: Committed) -> None:
    change = Change.from_json(entry(committed, "change").data)
    assert change.manifest is not None and change.manifest.file == "compose.yaml"
    assert change.manifest.before_text == change.manifest.reverted_text == change.manifest.current_text == COMPOSE
    assert Change.from_json(json.loads(json.dumps(change.to_json()))) == change
    drill = entry(committed, "rollback").data["manifest"]
    assert drill == {"before": COMPOSE, "after": change.manifest.after_text, "reverted": COMPOSE}
    verified = verify_run(committed.outcome.run)
    assert (verified.problems, verified.verdict, verified.anchored) == ((), "PASS", True)
    said = {verdict["rule"]: verdict["sentence"] for verdict in entry(committed, "publication").data["verdicts"]}
    assert "deployment.yaml and compose.yaml" in said["change.only_planned"]


def test_the_commit_says_what_to_reproduce(committed: Committed) -> None:
    found = committed_change(committed.file, BRANCH)
    assert (found.file, dict(found.patch)) == (committed.file, {"max_num_seqs": 8})


def test_a_commit_whose_files_differ_is_nothing_to_reproduce_and_anchors_nothing(
    committed: Committed, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, manifest = committed.file, committed.file.with_name("compose.yaml")
    texts = {file: file.read_text().replace("seqs: 1 ", "seqs: 8 "), manifest: COMPOSE.replace("seqs 1", "seqs 9")}
    made = commit_change(texts, "autotune/service/forged", "Tune", {"Autotune-Run": "other"}, 1)
    with pytest.raises(UserError, match=r"compose\.yaml doesn't change as the config of deployment\.yaml does"):
        committed_change(file, made.sha)
    monkeypatch.setattr("autotune.anchor.file_at", lambda place, sha: texts.get(place, ""))
    told = anchor_of(committed.outcome.run, Ledger.read(committed.outcome.run.ledger))
    assert not told.sha and "changes compose.yaml otherwise than was verified" in told.problems[0]


def test_a_record_of_before_there_were_manifests_is_still_read(committed: Committed) -> None:
    old = {name: value for name, value in entry(committed, "change").data.items() if name != "manifest"}
    assert Change.from_json(old).manifest is None


def uncommitted(file: Path) -> None:
    file.with_name("compose.yaml").write_text(COMPOSE + "# mine\n")


def another_value(file: Path) -> None:
    file.with_name("compose.yaml").write_text(COMPOSE.replace("seqs 1", "seqs 2"))
    git(file.parent, "commit", "--quiet", "-am", "Two seats")


def gone(file: Path) -> None:
    git(file.parent, "rm", "--quiet", "compose.yaml")
    git(file.parent, "commit", "--quiet", "-m", "No compose")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (uncommitted, r"compose\.yaml: expected it as committed"),
        (another_value, r"max_num_seqs is 1, \S+compose\.yaml, services\.chat\.command has 2"),
        (gone, r"compose\.yaml: expected a manifest, found none"),
    ],
)
def test_a_manifest_that_differs_is_refused_before_a_run_exists(
    tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    file, laboratory = staged(tmp_path)
    spoil(file)
    more: dict[str, Any] = {"laboratory": laboratory, "clock": laboratory.clock}
    with pytest.raises(UserError, match=said):
        start(file, tmp_path / "runs", Options(budget=BUDGET), Silent(), **more)
    assert not list((tmp_path / "runs").glob("*"))
