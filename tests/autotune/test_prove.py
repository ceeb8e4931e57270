"""Soak and rollback drill of a real run; what is known of earlier commits; and who isn't worth the proofs."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.harness import RunDir, Silent, resume
from autotune.harness.committed import committed_changes
from autotune.harness.reversal import Reversal
from tests.autotune.conftest import Tuned, git
from tools.errors import UserError
from tools.ledger import Entry, Ledger
from tools.manifests.yaml_file import YamlFile
from tools.resident import group_members, resident_bytes

MIB = 1 << 20


def trials_of(run: RunDir) -> dict[str, dict[str, Any]]:
    return {entry.data["id"]: dict(entry.data) for entry in Ledger.read(run.ledger).of_kind("trial")}


# of a run that tuned
def test_a_tuned_run_soaked_its_candidate_and_took_its_change_back(tuned: Tuned) -> None:
    trials = trials_of(tuned.run)
    soak, again = trials["s1"], trials["r1"]
    assert (soak["role"], soak["arm"], soak["failure"]) == ("soak", "B", None)
    assert soak["requests"] > trials["c1"]["requests"] and soak["summary"]["completed"] == soak["requests"]
    assert (again["role"], again["config"], again["seed"]) == ("rollback", trials["b1"]["config"], trials["c1"]["seed"])
    passed = {verdict["rule"]: verdict["status"] for verdict in tuned.result["verdicts"]}
    assert {passed[rule] for rule in ("start.time", "headroom.soak", "rollback.drill", "history.thrash")} == {"PASS"}


def test_the_text_that_was_taken_back_is_the_one_that_was_committed(tuned: Tuned) -> None:
    drill = Ledger.read(tuned.run.ledger).of_kind("rollback")[0].data
    committed = git(tuned.deployment.parent, "show", f"{tuned.result['commit']['branch']}:deployment.yaml")
    assert drill["after"].strip() == committed
    assert drill["reverted"] == drill["before"] == tuned.deployment.read_text()


def test_every_live_trial_says_what_memory_its_server_held(tuned: Tuned) -> None:
    for trial in trials_of(tuned.run).values():
        held = [trial["resources"][f"rss_{when}_bytes"] for when in ("before", "middle", "after")]
        assert min(held) > 100 * MIB and trial["resources"]["replicas"] == 1, trial["id"]


def test_soak_and_drill_are_no_trials_of_the_exploration(tuned: Tuned) -> None:
    assert {trial["role"] for trial in tuned.result["trials"]} == {"baseline", "search"}


def cut(tuned: Tuned, place: Path, last: str, change: Callable[[Entry, dict[str, Any]], None]) -> RunDir:
    """A copy of the run as a kill right after trial `last` would have left it, with `change` applied to its entries."""
    run = RunDir(Path(shutil.copytree(tuned.run.path, place)))
    entries = list(Ledger.read(run.ledger))
    run.ledger.unlink()
    run.checkpoints.unlink()
    shutil.rmtree(run.path / "measured")
    moments = iter([entry.time for entry in entries])
    with Ledger(run.ledger, clock=lambda: next(moments)) as ledger:
        for entry in entries:
            data = copy.deepcopy(dict(entry.data))
            change(entry, data)
            ledger.append(entry.kind, data, key=entry.key)
            if entry.key == f"trial:{last}":
                break
    return run


def test_a_candidate_that_is_refused_anyway_is_neither_soaked_nor_rolled_back(tuned: Tuned, tmp_path: Path) -> None:
    def elsewhere(entry: Entry, data: dict[str, Any]) -> None:
        if entry.key == "trial:c2":
            data["environment"] = "f" * 64

    last = [name for name in trials_of(tuned.run) if name.startswith("c")][-1]
    run = cut(tuned, tmp_path / "elsewhere", last, elsewhere)
    outcome = resume(run, Silent())
    assert outcome.decision == "refused" and "environment.same" in outcome.sentence
    assert {"s1", "r1"}.isdisjoint(trials_of(run))


def test_a_drill_outside_the_band_is_repeated_once_and_never_outvoted(tuned: Tuned, tmp_path: Path) -> None:
    candidate = trials_of(tuned.run)["c2"]

    def not_undone(entry: Entry, data: dict[str, Any]) -> None:
        if entry.key == "trial:r1":  # what a server that kept the candidate's config would have measured
            data["raw_blob"], data["summary"] = candidate["raw_blob"], candidate["summary"]

    run = cut(tuned, tmp_path / "not-undone", "r1", not_undone)
    outcome = resume(run, Silent())
    assert list(trials_of(run))[-2:] == ["r1", "r2"]
    assert (outcome.decision, outcome.exit_code) == ("refused", 2) and "rollback.drill" in outcome.sentence


# the reverse change
@pytest.mark.parametrize("spelled", ["0.90", "0x10", "'0.90'", '"on"', "2.0e+3", "+5", "''"])
def test_a_value_comes_back_as_it_was_spelled(spelled: str) -> None:
    before = f"a: {spelled}   # autotune: managed\r\nb: 1\n# end"
    after = YamlFile.parse(Path("d"), before).splice({("a",): 7})
    assert Reversal.of(before, after).applied(after) == before


def test_a_line_that_somebody_changed_since_is_not_taken_back() -> None:
    back = Reversal.of("a: 1\nb: 2\n", "a: 5\nb: 2\n")
    assert back.applied("a: 5\nb: 3\n") == "a: 1\nb: 3\n"
    with pytest.raises(UserError, match="line 1: expected 'a: 5', found 'a: 6'"):
        back.applied("a: 6\nb: 2\n")
    with pytest.raises(UserError, match="found ''"):
        back.applied("")


lines = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c\r\n", "d\n"]), max_size=12).map("".join)


@given(before=lines, after=lines)
def test_lines_that_came_or_went_are_taken_back_too(before: str, after: str) -> None:
    back = Reversal.of(before, after)
    assert back.applied(after) == before
    assert all(hunk.made for hunk in back.hunks) or not after


def test_a_line_that_went_comes_back_only_where_its_neighbour_still_stands() -> None:
    back = Reversal.of("a\nb\nc\n", "a\nc\n")
    assert back.applied("a\nc\nd\n") == "a\nb\nc\nd\n"
    with pytest.raises(UserError, match="line 1: expected 'a', found 'x'"):
        back.applied("x\nc\n")


# the past
def test_earlier_commits_are_told_as_changes_of_knobs(make_repo: Callable[..., Path]) -> None:
    deployment = make_repo()
    root, text = deployment.parent, deployment.read_text()

    def commit(old: str, new: str, message: str) -> str:
        deployment.write_text(deployment.read_text().replace(old, new))
        git(root, "commit", "--quiet", "--all", "-m", message)
        return git(root, "rev-parse", "HEAD")

    ours = commit("max_num_seqs: 1 ", "max_num_seqs: 8 ", "Tune\n\nAutotune-Run: run-7")
    commit("requests: 24", "requests: 25", "Another load")
    theirs = commit("max_num_seqs: 8 ", "max_num_seqs: 4 ", "No, four")
    commit("timeout_s: 30", "timeout_s: thirty", "A slip")
    commit("timeout_s: thirty", "timeout_s: 30", "and its repair")

    found = committed_changes(deployment)
    assert [(c["sha"], c["run"], c["changes"]) for c in found] == [
        (theirs, "", {"max_num_seqs": [8, 4]}),
        (ours, "run-7", {"max_num_seqs": [1, 8]}),
    ]
    assert all(commit["at"] > 1_700_000_000 for commit in found)
    assert deployment.read_text() != text


# memory
def test_what_a_group_of_processes_holds_is_read_from_the_os() -> None:
    held = 64 * MIB
    story = f"import subprocess, sys; kept = b'x' * {held}; print('ready', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", story], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        assert group_members(process.pid) == (process.pid,)
        resident = resident_bytes(group_members(process.pid))
        assert resident is not None and held < resident < held + 64 * MIB
    finally:
        process.communicate(timeout=10)
    assert group_members(process.pid) == () and resident_bytes((process.pid,)) is None


def test_a_server_that_is_not_ours_has_no_memory_that_we_know() -> None:
    assert group_members(0) == () and resident_bytes(()) is None
    assert os.getpid() in group_members(os.getpgid(0))
