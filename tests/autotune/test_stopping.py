"""Budgets, the kill switch and signals end a run; nothing is left running, and resume goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.duration import parse_seconds
from autotune.harness import Budget, Options, Outcome, RunDir, Silent, resume, start
from autotune.harness.killswitch import Stopped
from tests.autotune.conftest import ENVIRONMENT, git
from tests.autotune.test_crash import engines_gone, engines_of
from tools.errors import UserError
from tools.ledger import Ledger


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("1.5h", 5400)])
def test_a_duration_is_read_in_its_unit(text: str, seconds: float) -> None:
    assert parse_seconds("--budget", text) == seconds


@pytest.mark.parametrize("text", ["", "15", "0m", "-5m", "5 min", "1w"])
def test_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="15m"):
        parse_seconds("--budget", text)


def test_what_was_spent_is_counted_from_the_ledger_and_a_pause_costs_nothing(tmp_path: Path) -> None:
    now = [1000.0]
    with Ledger(tmp_path / "ledger.jsonl", clock=lambda: now[0]) as ledger:
        for at, kind, data in [
            (1000.0, "session", {}),
            (1010.0, "trial", {"role": "search", "requests": 24}),
            (1020.0, "action", {"usage": {"prompt_tokens": 100, "completion_tokens": 10}}),
            (9000.0, "session", {}),
            (9005.0, "trial", {"role": "confirm", "requests": 24}),
            (time.time() + 1e6, "session", {}),
        ]:
            now[0] = at
            ledger.append(kind, data)
        spent = Budget().spent(ledger)
        assert (spent.wall_s, spent.trials, spent.requests, spent.llm_tokens) == (25.0, 1, 48, 110)
        Budget(requests=49).check(ledger)
        with pytest.raises(Stopped, match="48 of 48 requests"):
            Budget(requests=48).check(ledger)


class Stopper(Silent):
    """Puts the kill switch on as soon as the first trial of the exploration begins."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs

    def phase(self, name: str, detail: str, seconds_left: float | None) -> None:
        if name == "explore":
            (RunDir.open(self.runs, "latest").path / "STOP").touch()


def test_the_kill_switch_stops_before_the_next_effect_and_resume_goes_on(
    make_repo: Callable[..., Path], tmp_path: Path, tiny_model: Path
) -> None:
    runs = tmp_path / "runs"
    options = Options(budget=Budget(wall_s=600, trials=1), commit=False)
    deployment = make_repo()
    text = deployment.read_bytes()
    stopped: Outcome = start(deployment, runs, options, Stopper(runs))
    assert (stopped.exit_code, stopped.decision) == (4, "stopped") and "STOP" in stopped.sentence
    assert engines_of(tiny_model) == []
    untouched(deployment, text)
    before = [e.data["id"] for e in Ledger.read(stopped.run.ledger).of_kind("trial")]
    assert before == ["b1", "b2"]

    again = resume(stopped.run, Silent())
    assert again.exit_code == 4 and "STOP" in again.sentence
    (stopped.run.path / "STOP").unlink()
    spent = resume(stopped.run, Silent(), Budget(wall_s=0.001, trials=1))
    assert spent.exit_code == 4 and "wall clock" in spent.sentence
    untouched(deployment, text)


def untouched(deployment: Path, text: bytes) -> None:
    """The user's file and repository are what they were before the run."""
    root = deployment.parent
    assert deployment.read_bytes() == text and git(root, "status", "--porcelain") == ""
    assert git(root, "branch", "--list") == "* main" and git(root, "worktree", "list").count("\n") == 0


def wait_for_engine(cwd: Path, model: Path) -> None:
    """Until the run that was started in `cwd` has launched its first engine."""
    deadline = time.monotonic() + 60
    while not (list(cwd.glob("runs/*/logs/*.log")) and engines_of(model)):
        assert time.monotonic() < deadline, "no engine was started"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_mid_load_stops_the_server_and_names_the_way_on(
    make_repo: Callable[..., Path], tmp_path: Path, tiny_model: Path, number: signal.Signals
) -> None:
    deployment = make_repo()
    text = deployment.read_bytes()
    command = [sys.executable, "-m", "autotune", "tune", str(deployment), "--json"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    wait_for_engine(tmp_path, tiny_model)
    os.kill(process.pid, number)
    try:
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 4, err
    assert "autotune resume" in json.loads(out)["sentence"]
    assert engines_gone(tiny_model)
    untouched(deployment, text)


def test_a_killed_run_leaves_no_server_and_no_port_behind(
    make_repo: Callable[..., Path], tmp_path: Path, tiny_model: Path
) -> None:
    command = [sys.executable, "-m", "autotune", "tune", str(make_repo())]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT
    )
    wait_for_engine(tmp_path, tiny_model)
    process.kill()
    process.wait()
    assert engines_gone(tiny_model)
