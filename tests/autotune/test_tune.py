"""The main job, as a user runs it, on a real engine with a tiny model."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from autotune.harness import RunDir
from autotune.report import write
from autotune.verify import verify_run
from tests.autotune.conftest import DEPLOYMENT, ENVIRONMENT, Tuned, commit_deployment, git
from tools.ledger import Entry, Ledger
from tools.manifests.yaml_file import YamlFile
from verifiers import STAGES

BRANCH = "autotune/tiny-chat/interactive-latency"


def test_a_poor_deployment_ends_in_one_commit_that_changes_only_managed_scalars(tuned: Tuned) -> None:
    root = tuned.deployment.parent
    assert tuned.result["decision"] == "tuned" and tuned.result["exit_code"] == 0
    assert git(root, "rev-list", "--count", f"main..{BRANCH}") == "1"
    assert git(root, "diff", "--name-only", "main", BRANCH) == "deployment.yaml"
    before = YamlFile.parse(tuned.deployment, git(root, "show", "main:deployment.yaml"))
    after = YamlFile.parse(tuned.deployment, git(root, "show", f"{BRANCH}:deployment.yaml"))
    changed = {name for name, value in after.data["config"].items() if value != before.data["config"][name]}
    assert "max_num_seqs" in changed
    assert {("config", name) for name in changed} <= before.managed
    assert {k: v for k, v in after.data.items() if k != "config"} == {
        k: v for k, v in before.data.items() if k != "config"
    }
    for old, new in zip(before.text.splitlines(), after.text.splitlines(), strict=True):
        assert old.partition(":")[0] == new.partition(":")[0] and old.partition("#")[2] == new.partition("#")[2]


def test_the_users_checkout_is_never_touched(tuned: Tuned) -> None:
    root = tuned.deployment.parent
    assert git(root, "status", "--porcelain") == "" and git(root, "branch", "--show-current") == "main"
    assert git(root, "worktree", "list").count("\n") == 0


def test_every_figure_of_the_report_follows_from_raw_records(tuned: Tuned) -> None:
    verification = verify_run(tuned.run)
    assert (verification.problems, verification.verdict, verification.anchored) == ((), "PASS", True)
    objective = next(c for c in tuned.result["comparisons"] if c["metric"] == "p95_ttft_ms")
    assert objective["ratio"] < 0.9
    rules = [v["rule"] for v in tuned.result["verdicts"]]
    assert rules == [rule.id for rule in (*STAGES["confirm"], *STAGES["publish"])]


def test_the_page_is_whole_and_shows_every_measured_launch(tuned: Tuned) -> None:
    page = write(tuned.run).html.read_text()

    class Tags(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag != "meta":
                self.open.append(tag)

        def handle_startendtag(self, tag: str, attrs: object) -> None:
            return None

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    tags = Tags()
    tags.feed(page)
    under_its_load = ("baseline", "search", "confirm")  # a soak's figures are of another load
    trials = Ledger.read(tuned.run.ledger).of_kind("trial")
    measured = [e for e in trials if e.data["raw_blob"] and e.data["role"] in under_its_load]
    assert tags.open == []
    assert page.count("<title>") - 1 == len(measured)


def test_a_record_that_was_changed_is_noticed(tuned: Tuned, tmp_path: Path) -> None:
    def copied(name: str) -> RunDir:
        return RunDir(Path(shutil.copytree(tuned.run.path, tmp_path / name)))

    flipped = copied("flipped")
    text = flipped.ledger.read_text()
    flipped.ledger.write_text(text.replace('"role":"confirm"', '"role":"cOnfirm"', 1))
    assert any("hash" in problem for problem in verify_run(flipped).problems)

    dropped = copied("dropped")
    lines = text.splitlines(keepends=True)
    dropped.ledger.write_text("".join(lines[:5] + lines[6:]))
    assert verify_run(dropped).problems

    raw = copied("raw")
    blob = next((raw.path / "raw").iterdir())
    blob.write_bytes(blob.read_bytes()[:-20])
    assert verify_run(raw).problems


def test_a_rebuilt_chain_no_longer_holds_the_head_that_the_commit_notes(tuned: Tuned, tmp_path: Path) -> None:
    def tidied(entry: Entry, data: dict[str, Any]) -> None:
        if entry.kind == "budget":
            data["noise"] = 0.0

    found = verify_run(reforged(tuned, tmp_path / "rebuilt", tidied))
    assert not found.anchored and any("anchor" in problem for problem in found.problems)


def reforged(tuned: Tuned, place: Path, change: Callable[[Entry, dict[str, Any]], None]) -> RunDir:
    """A copy of the run whose chain was rebuilt as a whole, with `change` applied to the data of every entry."""
    forged = RunDir(Path(shutil.copytree(tuned.run.path, place)))
    entries = list(Ledger.read(forged.ledger))
    forged.ledger.unlink()
    with Ledger(forged.ledger) as ledger:
        for entry in entries:
            data = copy.deepcopy(dict(entry.data))
            change(entry, data)
            ledger.append(entry.kind, data, key=entry.key)
    return forged


def test_another_deployment_than_the_owners_file_is_noticed(tuned: Tuned, tmp_path: Path) -> None:
    def easier(entry: Entry, data: dict[str, Any]) -> None:
        if entry.kind == "run.started":
            data["deployment"]["objective"]["min_effect"] = 0.0001

    def other_text(entry: Entry, data: dict[str, Any]) -> None:
        easier(entry, data)
        if entry.kind == "run.started":
            data["file_text"] = data["file_text"].replace("min_effect: 0.1", "min_effect: 0.0001")

    assert any("file's text" in p for p in verify_run(reforged(tuned, tmp_path / "easier", easier)).problems)
    assert any("began on" in p for p in verify_run(reforged(tuned, tmp_path / "text", other_text)).problems)


def test_a_run_that_claims_more_than_its_verdict_is_noticed(tuned: Tuned, tmp_path: Path) -> None:
    def claim(entry: Entry, data: dict[str, Any]) -> None:
        if entry.kind == "run.finished":
            data["decision"] = "unchanged"

    assert any("bear out" in problem for problem in verify_run(reforged(tuned, tmp_path / "claim", claim)).problems)


def test_figures_that_do_not_follow_from_the_raw_records_are_noticed(tuned: Tuned, tmp_path: Path) -> None:
    def flatter(entry: Entry, data: dict[str, Any]) -> None:
        if entry.kind == "trial" and data["id"] == "c2":
            data["summary"]["p95_ttft_ms"] = 0.21

    assert any("trial c2" in problem for problem in verify_run(reforged(tuned, tmp_path / "flat", flatter)).problems)


def test_a_deployment_that_is_good_already_is_left_alone(tiny_model: Path, tmp_path: Path) -> None:
    text = DEPLOYMENT.format(model=tiny_model).replace("max_num_seqs: 1 ", "max_num_seqs: 32 ")
    text = text.replace("tokens:   64 ", "tokens:   2048 ").replace("caching: false", "caching: true")
    good = commit_deployment(tmp_path / "good", text.replace("min_effect: 0.1", "min_effect: 0.4"))
    command = [sys.executable, "-m", "autotune", "tune", str(good), "--trials", "2", "--json"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False, env=ENVIRONMENT
    )
    assert done.returncode in (0, 3), done.stderr
    assert json.loads(done.stdout)["commit"] is None
    assert git(good.parent, "branch", "--list") == "* main"


def test_resuming_a_finished_run_tells_its_outcome_again(tuned: Tuned) -> None:
    command = [sys.executable, "-m", "autotune", "resume", str(tuned.run.path.resolve()), "--json"]
    done = subprocess.run(
        command, cwd=tuned.run.path, capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["commit"]["sha"] == tuned.result["commit"]["sha"]
    assert git(tuned.deployment.parent, "rev-list", "--count", f"main..{BRANCH}") == "1"
