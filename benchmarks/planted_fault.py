"""PlantedFault: a deployment that somebody got wrong, on a workload where it hurts, and what mends it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from tools.targets.knobs import Value

__all__ = ["Mend", "PlantedFault", "load_planted"]

LAUNCHES_PER_ARM, ALPHA = 4, 0.05
"As in the demo: the least with which a clear effect can pass."


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Mend(_Strict):
    """What a knob must have become; satisfying one of these is enough."""

    any_of: tuple[Value, ...] = ()
    at_least: float | None = None
    at_most: float | None = None

    def holds(self, value: Value | None) -> bool:
        if any(type(value) is type(each) and value == each for each in self.any_of):
            return True
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (self.at_least is not None and value >= self.at_least) or (
            self.at_most is not None and value <= self.at_most
        )


class PlantedFault(_Strict):
    """One case of data/misconfigured."""

    id: str
    why: str
    fault: Mapping[str, Value]
    "Knobs that were set wrong."
    config: Mapping[str, Value]
    "The other knobs that may be tuned."
    mends: Mapping[str, Mend]
    workload: Mapping[str, Any]
    "As in a deployment, with `concurrency` in place of `arrivals`."
    objective: str
    playbook: str = "interactive-latency"
    arguments: tuple[str, ...] = ("--max-model-len", "2048")
    "The owner's own, no knobs."

    def deployment(self, model: Path, target: Mapping[str, Any], fixed: Mapping[str, Value]) -> str:
        """The deployment file: nothing tells which of the managed knobs is wrong.

        Args:
            target: its `target:`, with `arguments` if it takes any.
            fixed: knobs that stand in its config and aren't managed, unless the case speaks of them.
        """
        workload = {name: value for name, value in self.workload.items() if name != "concurrency"}
        arrivals = {"kind": "closed", "concurrency": self.workload["concurrency"]}
        knobs = {**self.config, **self.fault}
        others = {name: value for name, value in fixed.items() if name not in knobs}
        data = {
            "name": self.id,
            "model": str(model),
            "target": dict(target),
            "workload": {"class": "chat", **workload, "arrivals": arrivals, "warmup_requests": 2, "timeout_s": 120},
            "objective": {"metric": self.objective, "min_effect": 0.1},
            "acceptance": {"trials_per_arm": LAUNCHES_PER_ARM, "alpha": ALPHA},
            "playbook": self.playbook,
            "ready_timeout_s": 300,
        }
        lines = [f"  {name}: {_scalar(value)}" for name, value in sorted(others.items())]
        lines += [f"  {name}: {_scalar(value)}  # autotune: managed" for name, value in sorted(knobs.items())]
        return "\n".join([yaml.safe_dump(data, sort_keys=False), "config:", *lines, ""])

    def mended(self, changes: Mapping[str, Value]) -> bool:
        """Whether `changes` to the config mend the fault."""
        config = {**self.config, **self.fault, **changes}
        return all(mend.holds(config.get(name)) for name, mend in self.mends.items())


def load_planted(path: Path) -> tuple[PlantedFault, ...]:
    return tuple(PlantedFault.model_validate(row) for row in yaml.safe_load(path.read_text()))


def _scalar(value: Value) -> str:
    return yaml.safe_dump(value).removesuffix("...\n").strip()
