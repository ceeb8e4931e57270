"""The graph: roles, who is next, what the monitor ends a run for, and what is left when a run ends."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from agents.expert import Expert
from agents.playbook import load_playbook
from autotune.harness import Budget, Options, Outcome, RunDir, Silent, resume, start
from autotune.harness.graph import drawn
from autotune.harness.history import History, Tried
from autotune.harness.roles import MONITOR, ROLES, SUPERVISOR, supervise, supervisor
from autotune.harness.roles.monitor import baseline_moved, client_ill, disk_full
from autotune.harness.roles.role import ends_of
from autotune.harness.state import State
from autotune.report_card.replay import ReplayLaboratory
from autotune.report_card.scenario import Scenario, load_scenarios
from autotune.report_card.stage import laboratory_of, set_up
from tests.autotune.conftest import git
from tools.deployment import Deployment
from tools.ledger import Ledger
from tools.targets.bundled import BundledTarget
from tools.targets.knobs import Config
from tools.targets.process import ServerProcess

PAGE = Path(__file__).parents[2] / "docs" / "graph.md"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        yield ledger


def test_the_page_shows_the_graph_as_it_is_compiled() -> None:
    found = re.search(r"```mermaid\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None and found[1] == drawn(), f"expected docs/graph.md to hold:\n{drawn()}"


def test_each_node_has_one_role_and_every_way_between_roles_leads_through_monitor_and_supervisor() -> None:
    owners: dict[str, str] = {name: role.name for role in ROLES for name in role.node_names}
    assert sum(len(role.nodes) for role in ROLES) == len(owners)
    for role in ROLES:
        for node in role.nodes:
            assert set(ends_of(node)) - {"__end__"} <= set(owners), node.__name__
            abroad = {name for name in ends_of(node) if owners.get(name, role.name) != role.name}
            assert (MONITOR in role.destinations(node)) == bool(abroad), node.__name__
    (starts,) = get_args(get_type_hints(supervisor)["return"])
    abroad = {name for role in ROLES for node in role.nodes for name in ends_of(node) if owners.get(name) != role.name}
    assert abroad - {"__end__"} <= set(get_args(starts)) <= set(owners) and SUPERVISOR not in owners


def test_who_is_next_follows_from_the_ledger(ledger: Ledger) -> None:
    def next_up(asked: str = "") -> tuple[str, str]:
        found = supervise(State(asked=asked), ledger)
        assert found.why and found == supervise(State(asked=asked), ledger)
        return found.role, found.node

    # Whatever a role asks for, the baseline comes first, and no confirmation is judged that wasn't planned.
    assert {next_up(asked) for asked in ("", "decide", "plan", "verdict", "publish")} == {("benchmarker", "calibrate")}
    ledger.append("budget", {}, key="budget")
    assert next_up("decide") == next_up("verdict") == ("tuner", "decide")
    assert next_up("plan") == ("benchmarker", "plan")
    ledger.append("finalist", {"trial": "t1"}, key="finalist")
    ledger.append("plan", {}, key="plan")
    assert next_up("verdict") == ("publisher", "verdict") and next_up("decide") == ("benchmarker", "plan")


def test_without_a_finalist_the_publisher_is_next(ledger: Ledger) -> None:
    ledger.append("budget", {}, key="budget")
    ledger.append("finalist", {"trial": None, "why": "nothing"}, key="finalist")
    assert supervise(State(asked="publish"), ledger).node == "publish"


def test_three_trials_that_the_client_spoilt_end_a_run(ledger: Ledger) -> None:
    def judged(status: str) -> None:
        said = {"rule": "soundness.doubts", "status": status, "sentence": "the client was late", "evidence": []}
        ledger.append("judgement", {"trial": "t", "verdicts": [said], "status": status})

    for status in ("PASS", "INCONCLUSIVE", "INCONCLUSIVE"):
        judged(status)
    assert client_ill(ledger) == ""
    judged("INCONCLUSIVE")
    assert "the client was late" in client_ill(ledger)
    judged("PASS")
    assert client_ill(ledger) == ""


def test_a_disk_that_is_full_ends_a_run(tmp_path: Path) -> None:
    assert disk_full(tmp_path, least_bytes=1) == ""
    assert "free some and resume" in disk_full(tmp_path, least_bytes=1 << 62)


def test_a_baseline_that_moved_beyond_its_own_band_is_told() -> None:
    deployment = Deployment.model_validate(
        {
            "name": "x",
            "model": "m",
            "config": {},
            "workload": {"requests": 4, "prompt_tokens": 16, "output_tokens": 8, "arrivals": {"kind": "burst"}},
        }
    )
    baseline, other = Config({"seats": 1}), Config({"seats": 2})

    def told(role: str, value: float, config: Config = baseline, seed: int = 7) -> Tried:
        summary = {"p95_ttft_ms": value}
        return Tried(role, 0, role, "search", {}, config, seed, 1.0, summary, None, "", "", (), ())

    def moved(*later: Tried) -> str:
        tried = (told("baseline", 100.0), told("baseline", 102.0), *later)
        return baseline_moved(History(tried, (), deployment, 1.0), baseline, 7)

    assert moved() == moved(told("search", 104.0)) == ""
    assert moved(told("search", 50.0, other)) == moved(told("search", 50.0, seed=8)) == ""
    assert "+18.8%" in moved(told("search", 120.0))


def scenario(name: str = "t01") -> Scenario:
    return next(one for one in load_scenarios() if one.id == name)


class Elsewhere(ReplayLaboratory):
    """A machine that is exchanged once the baseline has been measured: asked at the start, and after each launch."""

    asked = 0

    def environment(self) -> str:
        self.asked += 1
        return super().environment() if self.asked <= 3 else "another machine"


def once_explored(boundary: str, key: str) -> None:
    """What comes after the first trial of the exploration isn't the question here."""
    if (boundary, key) == ("recorded", "judge:t1"):
        raise KeyboardInterrupt


def played(root: Path, laboratory: ReplayLaboratory, run: RunDir | None = None) -> Outcome:
    if run is not None:
        return resume(run, Silent(), observe=once_explored, laboratory=laboratory, clock=laboratory.clock)
    return start(
        set_up(scenario(), root / "service"),
        root / "runs",
        Options(budget=Budget(wall_s=3600, trials=1), commit=False),
        Silent(),
        laboratory=laboratory,
        proposer=Expert(load_playbook("interactive-latency")),
        clock=laboratory.clock,
    )


def test_another_machine_ends_the_run_between_two_roles_and_the_first_one_goes_on(tmp_path: Path) -> None:
    first = laboratory_of(scenario(), seed=1)
    stopped = played(tmp_path, Elsewhere(first.surface, seed=1, clock=first.clock))
    assert (stopped.decision, stopped.exit_code) == ("stopped", 4)
    assert "hardware or software is another" in stopped.sentence and "autotune resume" in stopped.sentence
    ledger = Ledger.read(stopped.run.ledger)
    assert [entry.data["before"] for entry in ledger.of_kind("health")] == ["decide"]
    assert not ledger.of_kind("action")

    ended = played(tmp_path, first, stopped.run)
    assert "interrupted" in ended.sentence
    assert [entry.data["id"] for entry in Ledger.read(ended.run.ledger).of_kind("trial")] == ["b1", "b2", "t1"]
    assert git(tmp_path / "service", "status", "--porcelain") == ""


def test_what_a_run_left_running_is_ended_with_it(tmp_path: Path) -> None:
    target = BundledTarget(tmp_path)
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    process = ServerProcess(argv, log=tmp_path / "log")
    target._hosted.running[process.pid] = process
    (told,) = target.restore()
    assert str(process.pid) in told and process.exit_code is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
    assert target.restore() == ()
