"""Did the machine drift under the confirmation, by as much as is claimed?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.stats import t as student

from verifiers.evidence import Evidence, TrialEvidence
from verifiers.looking import blocks_of, whole_blocks
from verifiers.statistics.blocked import blocked_ratio
from verifiers.statistics.blocks import LAUNCHES
from verifiers.verdict import Verdict, error, inconclusive, passed

RULE = "drift.bracket"

LEVEL = 0.01
"Of the test that there is any drift; honest noise shows one as seldom."
LARGE = 0.5
"Share of the effect that a drift over one block may have. ABBA cancels a steady one, never one that turns."
LEAST = 0.02
"Drift over a block below which nobody minds."


def verify(evidence: Evidence) -> Verdict:
    """A slope per launch, from how launches of the same arm differ within a block: what came later, was it worse?

    In ABBA the first and last launch are the baseline's, three steps apart, the candidate's one step apart (in BAAB the
    other way round), so these differences know the slope and nothing of the effect. Least squares through zero, with a
    Student t of one degree of freedom less than there are differences.
    """
    plan, trials = evidence.plan, evidence.confirmation
    if plan is None:
        return error(RULE, "there is no plan")
    blocks, values = whole_blocks(trials), blocks_of(trials, plan.metric)
    if not values:
        return error(RULE, f"{plan.metric} could not be measured in every launch of a whole block", *trials)
    steps = [step for block in blocks for step in _differences(block, plan.metric)]
    slope = sum(apart * change for apart, change in steps) / sum(apart**2 for apart, _ in steps)
    over_block = slope * (LAUNCHES - 1)
    p = _chance(steps, slope)
    effect = abs(math.log(blocked_ratio(values)))
    said = f"{plan.metric} drifted by {math.expm1(over_block):+.1%} over a block (p = {p:.2g})"
    if p <= LEVEL and abs(over_block) >= max(LEAST, LARGE * effect):
        return inconclusive(
            RULE,
            f"{said}, and the change's own effect is {math.expm1(effect):.1%}; measure again when it rests",
            *trials,
        )
    return passed(RULE, f"{said}: not beyond chance, or small against the effect", *trials)


def _differences(block: Sequence[TrialEvidence], metric: str) -> list[tuple[int, float]]:
    """(launches apart, change of the metric's logarithm) of each arm's two launches."""
    found = []
    for arm in ("A", "B"):
        (first, before), (last, after) = (
            (place, math.log(trial.summary[metric])) for place, trial in enumerate(block) if trial.arm == arm
        )
        found.append((last - first, after - before))
    return found


def _chance(steps: Sequence[tuple[int, float]], slope: float) -> float:
    """Two-sided p of a slope of zero."""
    freedom = len(steps) - 1
    left = sum((change - slope * apart) ** 2 for apart, change in steps) / freedom
    if left == 0:
        return 1.0 if slope == 0 else 0.0
    ratio = abs(slope) / math.sqrt(left / sum(apart**2 for apart, _ in steps))
    return float(2 * student.sf(ratio, freedom))
