"""Score: gates times weighted gains, to rank proposals that passed."""

from __future__ import annotations

from statistics import fmean

from tools.measure.summary import lower_is_better
from verifiers.evidence import Evidence
from verifiers.looking import blocks_of
from verifiers.statistics.blocked import blocked_ratio

__all__ = ["GUARDED", "score"]

GUARDED = 0.1
"Weight of what the guarded metrics gained or lost on average, beside 1 for the objective."


def score(evidence: Evidence) -> float:
    """gate * min(1, max(0, g + 0.1 * mean of g over the guardrails)), from 0 (no gain) towards 1.

    The gate is 1 if every verdict passed, else 0; the caller sees to that. The gain g of a metric is 1 - r where it
    should fall and 1 - 1 / r where it should rise, r being the Hodges-Lehmann ratio of candidate to baseline within
    blocks: halving a latency and doubling a rate are both worth 0.5, a loss is negative. A metric that can't be told in
    every launch gains nothing.
    """
    objective = _gain(evidence, evidence.deployment.objective.metric)
    guarded = [_gain(evidence, rail.metric) for rail in evidence.deployment.guardrails]
    return min(1.0, max(0.0, objective + GUARDED * (fmean(guarded) if guarded else 0.0)))


def _gain(evidence: Evidence, metric: str) -> float:
    blocks = blocks_of(evidence.confirmation, metric)
    if not blocks:
        return 0.0
    ratio = blocked_ratio(blocks)
    return 1 - ratio if lower_is_better(metric) else 1 - 1 / ratio
