"""Stage: a scenario as a deployment in a throwaway git repository, with the laboratory that measures it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from autotune.report_card.reference import reference_of
from autotune.report_card.replay import ReplayLaboratory
from autotune.report_card.scenario import Scenario
from autotune.report_card.surface_file import load_surface
from tools.errors import UserError
from tools.targets.knobs import Value

__all__ = ["NAME", "deployment_text", "laboratory_of", "set_up"]

NAME = "service"
"Every scenario's deployment is called the same: a name could hint."
TRIALS_PER_ARM, ALPHA = 4, 0.05
"As in the demo: blocks of ABBA, and the level that so few launches allow."
_GUARDRAIL = {"metric": "output_throughput", "max_regression": 0.05}


def set_up(scenario: Scenario, folder: Path) -> Path:
    """A git repository in the new `folder` with the scenario's deployment committed; returns the deployment's file."""
    folder.mkdir(parents=True)
    file = folder / "deployment.yaml"
    file.write_text(deployment_text(scenario))
    identity = ("-c", "user.name=owner", "-c", "user.email=owner@localhost", "-c", "commit.gpgsign=false")
    _git(folder, "init", "--quiet", "--initial-branch=main")
    _git(folder, "add", "--", file.name)
    _git(folder, *identity, "commit", "--quiet", "--no-verify", "-m", "Deploy")
    return file


def laboratory_of(scenario: Scenario, seed: int) -> ReplayLaboratory:
    """What measures the scenario."""
    return ReplayLaboratory(
        load_surface(scenario.surface), seed=seed, noise=scenario.noise, lures=scenario.lures, traps=scenario.traps
    )


def deployment_text(scenario: Scenario) -> str:
    """The deployment's YAML: what the surface was recorded with, but for the scenario's own values."""
    surface = load_surface(scenario.surface)
    managed = {*(scenario.managed or surface.grid), *scenario.extra}
    start = scenario.start
    if start == "best":
        start = dict(reference_of(scenario.surface).best(scenario.objective, scenario.traps).at)
    assert not isinstance(start, str)
    if differing := sorted(set(start) ^ set(surface.grid)):
        raise UserError(f"scenario {scenario.id}: start: expected the knobs of {surface.name}, differing: {differing}")
    config: dict[str, Value] = {**surface.fixed, **start, **scenario.extra}
    lines = [f"name: {NAME}", f"model: {surface.model.name}", "config:"]
    lines += [f"  {name}: {_scalar(value)}{_mark(name in managed)}" for name, value in config.items()]
    rest: dict[str, Any] = {
        "workload": surface.workload.model_dump(mode="json", by_alias=True, exclude_unset=True),
        "slo": scenario.slo,
        "objective": {"metric": scenario.objective, "min_effect": scenario.min_effect},
        "guardrails": [_GUARDRAIL],
        "acceptance": {"trials_per_arm": TRIALS_PER_ARM, "alpha": ALPHA},
    }
    return "\n".join(lines) + "\n" + yaml.safe_dump(rest, sort_keys=False)


def _scalar(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _mark(managed: bool) -> str:
    return "  # autotune: managed" if managed else ""


def _git(folder: Path, *arguments: str) -> None:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"git {arguments[0]} failed in {folder}: {done.stderr.strip()}")
