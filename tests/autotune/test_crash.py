"""kill -9 anywhere, then resume: the run completes, with one commit and a whole record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.harness import RunDir
from autotune.verify import verify_run
from tests.autotune.conftest import git
from tools.ledger import Ledger

ROOT = Path(__file__).parents[2]


def engines_of(model: Path) -> list[int]:
    """Processes that serve `model`, from the OS."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(model).encode() in command and b"serve" in command:
                found.append(int(entry.name))
    return found


def engines_gone(model: Path, within_s: float = 5.0) -> bool:
    """Whether no process serves `model` any more, at the latest after `within_s`."""
    deadline = time.monotonic() + within_s
    while engines_of(model) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not engines_of(model)


@pytest.mark.timeout(600)
def test_killed_at_every_boundary_the_run_still_ends_in_one_verified_commit(
    make_repo: Callable[..., Path], tiny_model: Path, tmp_path: Path
) -> None:
    deployment, runs = make_repo(), tmp_path / "runs"
    driver = [sys.executable, str(ROOT / "tests/autotune/crash_driver.py"), str(deployment), str(runs)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(driver, capture_output=True, text=True, env=environment, timeout=560, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])

    assert result["exit_code"] == 0
    killed = result["killed_at"]
    assert {"acted commit", "acted trial:c1", "loading trial:t1", "recorded verdict", "before finished"} <= set(killed)
    assert {"recorded trial:s1", "acted rollback", "before trial:r1"} <= set(killed)
    assert {"acted harness", "acted change", "recorded publication"} <= set(killed)

    run = RunDir.open(runs, "latest")
    ledger = Ledger.read(run.ledger)
    assert [e.data["decision"] for e in ledger.of_kind("run.finished")] == ["tuned"]
    keys = [entry.key for entry in ledger if entry.key]
    assert len(keys) == len(set(keys))
    measured = [entry.data["id"] for entry in ledger.of_kind("trial")]
    confirmed = [name for name in measured if name.startswith("c")]
    assert len(measured) == len(set(measured)) and confirmed == [f"c{n}" for n in range(1, 9)]
    assert measured[measured.index("c8") :][:3] == ["c8", "s1", "r1"]
    # A launch that a kill cut short stays visible beside its repetition; a measured one is never repeated.
    begun = [entry.data["id"] for entry in ledger.of_kind("trial.started")]
    assert begun.count("c1") == 2 and set(begun) == set(measured)

    branches = git(deployment.parent, "for-each-ref", "--format=%(refname:short)", "refs/heads/autotune")
    assert branches.splitlines() == ["autotune/tiny-chat/interactive-latency"]
    assert git(deployment.parent, "rev-list", "--count", f"main..{branches}") == "1"
    assert git(deployment.parent, "worktree", "list").count("\n") == 0
    assert git(deployment.parent, "status", "--porcelain") == ""
    verification = verify_run(run)
    assert verification.problems == () and verification.verdict == "PASS" and verification.anchored

    assert engines_gone(tiny_model)
