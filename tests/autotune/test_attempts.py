"""Earlier confirmations of the same change are found beside a run, whatever became of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotune.harness import RunDir
from autotune.harness.attempts import earlier_attempts
from tools.ledger import Ledger

NOW = 1_700_100_000.0
HOUR = 3600.0


def ran(
    runs: Path, name: str, *, at: float, candidate: str = "cand", status: str = "FAIL", confirmed: bool = True
) -> Path:
    """A run that confirmed `candidate` at that moment; without `status` it never came to a verdict."""
    folder = runs / name
    folder.mkdir(parents=True)
    with Ledger(folder / "ledger.jsonl", clock=lambda: at) as ledger:
        ledger.append("run.started", {"deployment": {"name": "chat"}}, key="run.started")
        ledger.append("plan", {"plan": {"baseline_digest": "base", "candidate_digest": candidate}}, key="plan")
        if confirmed:
            ledger.append("trial.started", {"id": "c1", "role": "confirm"})
        if status:
            ledger.append("verdict", {"status": status}, key="verdict")
    return folder / "ledger.jsonl"


@pytest.fixture
def mine(tmp_path: Path) -> RunDir:
    return RunDir.create(tmp_path, "chat")


def found(run: RunDir) -> list[tuple[str, str]]:
    return [(a.run, a.verdict) for a in earlier_attempts(run, "chat", "base", "cand", NOW)]


def test_those_of_the_same_change_within_a_day_count_oldest_first(mine: RunDir, tmp_path: Path) -> None:
    ran(tmp_path, "later", at=NOW - HOUR, status="INCONCLUSIVE")
    ran(tmp_path, "first", at=NOW - 5 * HOUR)
    ran(tmp_path, "yesterday", at=NOW - 25 * HOUR)
    ran(tmp_path, "another-change", at=NOW - HOUR, candidate="other")
    ran(tmp_path, "never-launched", at=NOW - HOUR, status="", confirmed=False)
    ran(tmp_path, "stopped", at=NOW - 2 * HOUR, status="")
    assert found(mine) == [("first", "FAIL"), ("stopped", "none"), ("later", "INCONCLUSIVE")]


def test_another_deployments_runs_and_ones_own_do_not_count(mine: RunDir, tmp_path: Path) -> None:
    ran(tmp_path, "theirs", at=NOW - HOUR)
    assert earlier_attempts(mine, "documents", "base", "cand", NOW) == ()
    assert [a.run for a in earlier_attempts(RunDir(tmp_path / "theirs"), "chat", "base", "cand", NOW)] == []


@pytest.mark.parametrize("damage", ["torn", "dropped", "garbage"])
def test_a_damaged_ledger_makes_no_room_for_another_attempt(mine: RunDir, tmp_path: Path, damage: str) -> None:
    ledger = ran(tmp_path, "damaged", at=NOW - HOUR)
    lines = ledger.read_bytes().splitlines(keepends=True)
    broken: dict[str, list[bytes]] = {
        "torn": [*lines[:-1], lines[-1][:20]],
        "dropped": [lines[0], *lines[1:3]],
        "garbage": [b"\xff\xfe not json\n", b"[1, 2]\n", *lines],
    }
    ledger.write_bytes(b"".join(broken[damage]))
    assert [name for name, _ in found(mine)] == ["damaged"]


def test_entries_that_are_no_entries_are_passed_over(mine: RunDir, tmp_path: Path) -> None:
    odd: list[Any] = [
        {"kind": "plan"},
        {"kind": "plan", "time": "x", "data": {}},
        {"kind": "plan", "time": 1, "data": 3},
    ]
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "ledger.jsonl").write_text("".join(json.dumps(one) + "\n" for one in odd))
    assert found(mine) == []
