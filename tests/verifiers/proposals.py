"""Proposals as a careless owner would let them through: any knob listed, managed, tunable and called lossless."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.verifiers.conftest import SPACE
from tools.targets import Config, Knob, KnobSpace
from tools.targets.knobs import Value
from verifiers import Evidence
from verifiers.rules.proposal import RULES

__all__ = ["GIB", "faults", "proposing"]

GIB = 1 << 30


def faults(evidence: Evidence) -> dict[str, str]:
    """Rules of this folder that don't pass, asked as before a launch."""
    verdicts = [rule.verify(evidence) for rule in RULES]
    return {verdict.rule: verdict.status for verdict in verdicts if verdict.status != "PASS"}


def proposing(evidence: Evidence, name: str, value: Any, before: Value = "a") -> Evidence:
    """`evidence` with `name` proposed, a knob that its owner has listed, managed, made tunable and called lossless."""
    knob = SPACE.knobs.get(name) or Knob(name, "choice", before, "the owner's", choices=(before, value))
    space = KnobSpace({**SPACE.knobs, name: knob})
    baseline = evidence.baseline if name in SPACE.knobs else Config({**evidence.baseline.values, name: before})
    widened = replace(evidence, space=space, baseline=baseline, managed=evidence.managed | {name}, plan=None)
    return replace(widened.proposing(baseline.patched({name: value}), GIB), patch={name: value})
