"""Presets: the archetypes of workloads that are shipped."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from tools.measure.slo import Slo
from tools.measure.workload import WorkloadSpec
from tools.traces.spec_file import parse_spec

__all__ = ["PRESETS", "Preset", "preset"]

PRESETS = ("chat-plus", "background-agent", "data-processor")


@dataclass(frozen=True)
class Preset:
    """One archetype."""

    name: str
    text: str
    "The YAML, comments and all: they hold the reasons."
    spec: WorkloadSpec
    slo: Slo
    objective: str
    "The metric it is judged by before all others."

    @property
    def about(self) -> str:
        """The first sentence of its comments."""
        comments = " ".join(line[1:].strip() for line in self.text.splitlines() if line.startswith("#"))
        return comments.split(". ")[0] + "."


def preset(name: str) -> Preset:
    """The preset of that name.

    Raises:
        KeyError: there is none.
    """
    if name not in PRESETS:
        raise KeyError(name)
    file = resources.files("configs").joinpath(f"workloads/{name}.yaml")
    text = file.read_text()
    asked = parse_spec(Path(f"workloads/{name}.yaml"), text)
    if asked.objective is None:
        raise ValueError(f"the preset {name} names no objective")
    return Preset(name, text, asked.spec, asked.slo, asked.objective)
