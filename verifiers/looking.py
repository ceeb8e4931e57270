"""Looking: the blocks of a metric that a confirmation holds, and what its plan's stopping rule says to them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tools.measure.summary import lower_is_better
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.plan import Plan
from verifiers.statistics.blocks import BlockValues
from verifiers.statistics.look import Look, look
from verifiers.statistics.rail import rail

__all__ = ["blocks_of", "look_after", "paired", "whole_blocks"]


def whole_blocks(trials: Sequence[TrialEvidence]) -> tuple[tuple[TrialEvidence, ...], ...]:
    """The confirmation's trials by block, in order; those alone that have two launches of each arm."""
    numbers = sorted({trial.block for trial in trials if trial.block is not None})
    grouped = (tuple(trial for trial in trials if trial.block == number) for number in numbers)
    return tuple(block for block in grouped if sorted(trial.arm for trial in block) == ["A", "A", "B", "B"])


def paired(values: Sequence[tuple[str, float]]) -> BlockValues:
    """A block of (arm, value), two of each arm."""
    (a, b), (c, d) = ([value for arm, value in values if arm == wanted] for wanted in ("A", "B"))
    return BlockValues((a, b), (c, d))


def blocks_of(trials: Sequence[TrialEvidence], metric: str) -> list[BlockValues] | None:
    """The metric in every whole block, in its own unit; None where a launch lacks it or it isn't above zero."""
    found = []
    for block in whole_blocks(trials):
        values = [(trial.arm, trial.summary.get(metric, 0.0)) for trial in block]
        if not all(0 < value < math.inf for _, value in values):
            return None
        found.append(paired(values))
    return found


def look_after(evidence: Evidence, plan: Plan, blocks: int | None = None) -> Look | None:
    """What the plan's rule says after so many of its blocks (all measured ones by default).

    None where the metric can't be told in every launch, so that no rule can decide.
    """
    trials = evidence.confirmation
    if blocks is not None:
        trials = tuple(trial for trial in trials if trial.block is not None and trial.block < blocks)
    values = blocks_of(trials, plan.metric)
    if values is None:
        return None
    rails = {}
    for metric, margin in sorted(plan.guardrails.items()):
        guarded = blocks_of(trials, metric)
        if guarded is not None:  # a guardrail that can't be told doesn't decide when to stop; its rule says so after
            rails[metric] = rail(guarded, lower_is_better(metric), margin)
    return look(values, plan.stopping, rails)
