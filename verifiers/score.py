"""Score: gates times weighted gains, to rank proposals that passed."""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.statistics.rank_test import hodges_lehmann_ratio

__all__ = ["score"]


def score(evidence: Evidence) -> float:
    """0 unless every verdict passed (the gate sees to that), else the relative gain g of the objective as g / (1 + g)
    for a metric that should rise and 1 - ratio for one that should fall; both run from 0 (no gain) towards 1."""
    metric = evidence.deployment.objective.metric
    baseline, candidate = evidence.values("A", metric), evidence.values("B", metric)
    if not baseline or not candidate or min(*baseline, *candidate) <= 0:
        return 0.0
    ratio = hodges_lehmann_ratio(baseline, candidate)
    return max(0.0, 1 - ratio if evidence.deployment.objective.lower_is_better else 1 - 1 / ratio)
