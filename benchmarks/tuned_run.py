"""Tuned run: `autotune tune` on a deployment in a repository of its own, kept in a folder, and what it left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.peers import ROOT

__all__ = ["MARK", "tuned_run"]

MARK = "AUTOTUNE_BENCHMARK_RUN"
"A variable that every process of a run's servers inherits, so that one that was left can be found."
_REAPED_WITHIN_S = 5.0
_LIMIT_S = 7200
_AUTOTUNE = (sys.executable, "-m", "autotune")


def tuned_run(folder: Path, deployment: str, *, mark: str, budget: str, trials: int) -> dict[str, Any]:
    """The facts of `tune --json`, with `verify_exit` and `left` (process ids of servers that still run).

    A finished run's result stands in `folder`, and is read back; one that was cut off there is resumed.

    Args:
        deployment: its text. It gives its server the variable MARK with the value `mark`.
    """
    kept = folder / "result.json"
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(_run(folder, deployment, mark, budget, trials), indent=1))
    facts: dict[str, Any] = json.loads(kept.read_text())
    return facts


def _run(folder: Path, deployment: str, mark: str, budget: str, trials: int) -> dict[str, Any]:
    runs = folder / "runs"
    if runs.exists():
        words = ["resume", "--runs", str(runs), "--json"]
    else:
        _commit(folder, deployment)
        words = ["tune", "deployment.yaml", "--budget", budget, "--trials", str(trials), "--runs", str(runs), "--json"]
    facts: dict[str, Any] = json.loads(_autotune(folder, *words).stdout)
    deadline = time.monotonic() + _REAPED_WITHIN_S
    while (left := _marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    verified = _autotune(folder, "verify", "--runs", str(runs)).returncode if runs.exists() else None
    return {**facts, "left": left, "verify_exit": verified}


def _autotune(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_AUTOTUNE, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )


def _commit(folder: Path, deployment: str) -> None:
    (folder / "deployment.yaml").write_text(deployment)
    identity = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.com"]
    for words in (
        ["init", "--quiet", "--initial-branch", "main"],
        ["add", "deployment.yaml"],
        [*identity, "commit", "--quiet", "--message", "The deployment, as somebody left it"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)


def _marked(mark: str) -> list[int]:
    """Process ids whose environment says that they belong to the run."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = path.read_bytes().split(b"\0")
        except OSError:
            continue  # it has just ended, or isn't ours
        if wanted in variables:
            found.append(int(path.parent.name))
    return found
