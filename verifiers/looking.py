"""Looking: the blocks of a metric that a confirmation holds, and what its plan's stopping rule says to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tools.measure.summary import lower_is_better
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.plan import Plan
from verifiers.statistics.blocks import BlockValues, paired
from verifiers.statistics.look import Look, look
from verifiers.statistics.rail import GRAIN, Rail, rail

__all__ = ["blocks_of", "grain", "look_after", "paired", "rail_of", "whole_blocks"]

_GRAINS = {
    **dict.fromkeys(("completed", "failed", "timed_out"), 1.0),
    **dict.fromkeys(("stutter_share", "slo_attainment", "prefix_hit_rate", "request_goodput"), 0.01),
}
"Of what is counted, a step: one request, one in a hundred of a share, one answer in a hundred seconds."


def grain(metric: str) -> float:
    """The smallest step of a metric that means anything, in its own unit; half of it is no worsening."""
    return _GRAINS.get(metric, GRAIN)


def whole_blocks(trials: Sequence[TrialEvidence]) -> tuple[tuple[TrialEvidence, ...], ...]:
    """The confirmation's trials by block, in order; those alone that have two launches of each arm."""
    numbers = sorted({trial.block for trial in trials if trial.block is not None})
    grouped = (tuple(trial for trial in trials if trial.block == number) for number in numbers)
    return tuple(block for block in grouped if sorted(trial.arm for trial in block) == ["A", "A", "B", "B"])


def blocks_of(trials: Sequence[TrialEvidence], metric: str) -> list[BlockValues] | None:
    """The metric in every whole block, in its own unit; None where a launch lacks it or it isn't above zero."""
    return _blocks(trials, metric, lambda value: 0 < value < math.inf)


def rail_of(trials: Sequence[TrialEvidence], metric: str, margin: float) -> Rail | None:
    """The metric against a margin, in every whole block, zeros included; None where a launch lacks it."""
    blocks = _blocks(trials, metric, lambda value: 0 <= value < math.inf)
    return None if blocks is None else rail(blocks, lower_is_better(metric), margin, grain(metric))


def _blocks(trials: Sequence[TrialEvidence], metric: str, usable: Callable[[float], bool]) -> list[BlockValues] | None:
    found = []
    for block in whole_blocks(trials):
        values = [(trial.arm, trial.summary.get(metric, math.nan)) for trial in block]
        if not all(usable(value) for _, value in values):
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
        guarded = rail_of(trials, metric, margin)
        if guarded is not None:  # no further launch could tell it either: its rule refuses it in the end
            rails[metric] = guarded
    return look(values, plan.stopping, rails)
