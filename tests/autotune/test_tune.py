"""The main job, as a user runs it, on a real engine with a tiny model."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

from autotune.harness import RunDir
from autotune.report import write
from autotune.verify import verify_run
from tests.autotune.conftest import DEPLOYMENT, ENVIRONMENT, Tuned, commit_deployment, git
from tools.ledger import Ledger
from tools.manifests.yaml_file import YamlFile

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
    assert rules[0] == "policy.knobs" and rules[-1] == "quality.greedy_tokens"


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
    measured = [e for e in Ledger.read(tuned.run.ledger).of_kind("trial") if e.data["raw_blob"]]
    assert tags.open == []
    assert page.count("<title>") - 1 == len(measured)


def test_a_record_that_was_changed_is_noticed(tuned: Tuned, tmp_path: Path) -> None:
    def copy(name: str) -> RunDir:
        return RunDir(Path(shutil.copytree(tuned.run.path, tmp_path / name)))

    flipped = copy("flipped")
    text = flipped.ledger.read_text()
    flipped.ledger.write_text(text.replace('"role":"confirm"', '"role":"cOnfirm"', 1))
    assert any("hash" in problem for problem in verify_run(flipped).problems)

    dropped = copy("dropped")
    lines = text.splitlines(keepends=True)
    dropped.ledger.write_text("".join(lines[:5] + lines[6:]))
    assert verify_run(dropped).problems

    raw = copy("raw")
    blob = next((raw.path / "raw").iterdir())
    blob.write_bytes(blob.read_bytes()[:-20])
    assert verify_run(raw).problems


def test_a_rebuilt_chain_no_longer_holds_the_head_that_the_commit_notes(tuned: Tuned, tmp_path: Path) -> None:
    rebuilt = RunDir(Path(shutil.copytree(tuned.run.path, tmp_path / "rebuilt")))
    entries = list(Ledger.read(rebuilt.ledger))
    rebuilt.ledger.unlink()
    with Ledger(rebuilt.ledger) as ledger:
        for entry in entries:
            data = {**entry.data, "noise": 0.0} if entry.kind == "budget" else entry.data
            ledger.append(entry.kind, data, key=entry.key)
    found = verify_run(rebuilt)
    assert not found.anchored and any("anchor" in problem for problem in found.problems)


def test_figures_that_do_not_follow_from_the_raw_records_are_noticed(tuned: Tuned, tmp_path: Path) -> None:
    forged = RunDir(Path(shutil.copytree(tuned.run.path, tmp_path / "forged")))
    entries = list(Ledger.read(forged.ledger))
    forged.ledger.unlink()
    with Ledger(forged.ledger) as ledger:
        for entry in entries:
            data = dict(entry.data)
            if entry.kind == "trial" and data["id"] == "c2":
                data["summary"] = {**data["summary"], "p95_ttft_ms": 0.21}
            ledger.append(entry.kind, data, key=entry.key)
    assert any("trial c2" in problem for problem in verify_run(forged).problems)


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
