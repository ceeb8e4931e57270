"""Earlier confirmations of the same change are found beside a run, whatever became of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from autotune.harness import RunDir
from autotune.harness.attempts import earlier_attempts
from tools.ledger import Ledger

NOW = 1_700_100_000.0
HOUR = 3600.0


SEATS = frozenset({"max_num_seqs"})


def ran(
    runs: Path,
    name: str,
    *,
    at: float,
    patch: Mapping[str, Any] | None = None,
    status: str = "FAIL",
    confirmed: bool = True,
    failure: str = "",
) -> Path:
    """A run that confirmed a change of the seats at that moment; without `status` it never came to a verdict."""
    folder = runs / name
    folder.mkdir(parents=True)
    standing = {"max_num_seqs": 2, "block_size": 16}
    with Ledger(folder / "ledger.jsonl", clock=lambda: at) as ledger:
        ledger.append("run.started", {"deployment": {"name": "chat"}}, key="run.started")
        ledger.append("trial.started", {"id": "b1", "role": "baseline", "config": standing})
        changed = {"max_num_seqs": 8} if patch is None else dict(patch)
        ledger.append("plan", {"plan": {"baseline_digest": "base"}, "patch": changed}, key="plan")
        if confirmed:
            ledger.append("trial.started", {"id": "c1", "role": "confirm"})
        if failure:
            ledger.append("trial", {"id": "c1", "role": "confirm", "failure": {"kind": failure}})
        if status:
            ledger.append("verdict", {"status": status}, key="verdict")
    return folder / "ledger.jsonl"


@pytest.fixture
def mine(tmp_path: Path) -> RunDir:
    return RunDir.create(tmp_path, "chat")


def found(run: RunDir) -> list[tuple[str, str]]:
    return [(a.run, a.verdict) for a in earlier_attempts(run, "chat", "base", SEATS, NOW)]


def test_those_of_the_same_change_within_a_day_count_oldest_first(mine: RunDir, tmp_path: Path) -> None:
    ran(tmp_path, "later", at=NOW - HOUR, status="INCONCLUSIVE")
    ran(tmp_path, "first", at=NOW - 5 * HOUR)
    ran(tmp_path, "yesterday", at=NOW - 25 * HOUR)
    ran(tmp_path, "another-change", at=NOW - HOUR, patch={"max_num_seqs": 8, "block_size": 32})
    ran(tmp_path, "never-launched", at=NOW - HOUR, status="", confirmed=False)
    ran(tmp_path, "stopped", at=NOW - 2 * HOUR, status="")
    assert found(mine) == [("first", "FAIL"), ("stopped", "none"), ("later", "INCONCLUSIVE")]


def test_a_value_that_is_off_by_one_is_the_same_idea(mine: RunDir, tmp_path: Path) -> None:
    ran(tmp_path, "near", at=NOW - HOUR, patch={"max_num_seqs": 9})
    ran(tmp_path, "spelled-out", at=NOW - HOUR, patch={"max_num_seqs": 8, "block_size": 16})
    ran(tmp_path, "elsewhere", at=NOW - HOUR, patch={"block_size": 32})
    assert {name for name, _ in found(mine)} == {"near", "spelled-out"}


def test_what_a_fault_of_the_harness_spoilt_was_no_attempt(mine: RunDir, tmp_path: Path) -> None:
    ran(tmp_path, "spoilt", at=NOW - HOUR, status="ERROR", failure="port_taken")
    ran(tmp_path, "crashed", at=NOW - 2 * HOUR, status="ERROR", failure="crash")
    ran(tmp_path, "refused-all-the-same", at=NOW - HOUR, status="FAIL", failure="port_taken")
    assert [name for name, _ in found(mine)] == ["crashed", "refused-all-the-same"]


def test_another_deployments_runs_and_ones_own_do_not_count(mine: RunDir, tmp_path: Path) -> None:
    ran(tmp_path, "theirs", at=NOW - HOUR)
    assert earlier_attempts(mine, "documents", "base", SEATS, NOW) == ()
    assert [a.run for a in earlier_attempts(RunDir(tmp_path / "theirs"), "chat", "base", SEATS, NOW)] == []


@pytest.mark.parametrize("damage", ["torn", "dropped", "garbage"])
def test_a_damaged_ledger_makes_no_room_for_another_attempt(mine: RunDir, tmp_path: Path, damage: str) -> None:
    ledger = ran(tmp_path, "damaged", at=NOW - HOUR)
    lines = ledger.read_bytes().splitlines(keepends=True)
    broken: dict[str, list[bytes]] = {
        "torn": [*lines[:-1], lines[-1][:20]],
        "dropped": lines[:4],
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
