"""The catalogue: every rule, and which are asked at which stage, cheap to dear."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from verifiers.rule import Rule, Stage
from verifiers.rules import effect, measurement, operation, plan, proposal, publication, quality

__all__ = ["FAMILIES", "RULES", "STAGES"]

RULES: tuple[Rule, ...] = (
    *proposal.RULES,
    *plan.RULES,
    *measurement.RULES,
    *effect.RULES,
    *operation.RULES,
    *quality.RULES,
    *publication.RULES,
)
"""Cheap to dear; a stage asks its rules in this order."""

STAGES: Mapping[Stage, tuple[Rule, ...]] = MappingProxyType(
    {
        "preflight": tuple(rule for rule in RULES if "preflight" in rule.stages),
        "trial": tuple(rule for rule in RULES if "trial" in rule.stages),
        "confirm": tuple(rule for rule in RULES if "confirm" in rule.stages),
        "publish": tuple(rule for rule in RULES if "publish" in rule.stages),
    }
)

FAMILIES: frozenset[str] = frozenset(rule.family for rule in RULES)
