"""Is the candidate better, beyond chance and by enough to matter?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.statistics.rank_test import exact_rank_p, hodges_lehmann_ratio, ratio_interval, smallest_p
from verifiers.verdict import Verdict, error, failed, inconclusive, passed

RULE = "improvement.primary"


def verify(evidence: Evidence) -> Verdict:
    """Exact one-sided rank test over launches *and* the minimum effect, both fixed in the plan.

    The unit of replication is the launch, never the request. The effect is the metric's Hodges-Lehmann ratio.
    """
    plan = evidence.plan
    if plan is None:
        return error(RULE, "there is no plan")
    baseline, candidate = evidence.values("A", plan.metric), evidence.values("B", plan.metric)
    trials = evidence.confirmation
    if baseline is None or candidate is None or not baseline or not candidate:
        return error(RULE, f"{plan.metric} could not be measured in every launch", *trials)
    if min(*baseline, *candidate) <= 0:
        return error(RULE, f"{plan.metric} has a value of zero or less", *trials)
    per_arm = min(len(baseline), len(candidate))
    if smallest_p(per_arm) > plan.alpha:
        return inconclusive(RULE, f"{per_arm} launches an arm can't reach p <= {plan.alpha:g}", *trials)
    lower = evidence.deployment.objective.lower_is_better
    p = exact_rank_p(baseline, candidate) if lower else exact_rank_p(candidate, baseline)
    ratio = hodges_lehmann_ratio(baseline, candidate)
    low, high = ratio_interval(baseline, candidate, alpha=0.05)
    gain = 1 - ratio if lower else ratio - 1
    best = 1 - low if lower else high - 1
    said = f"{plan.metric} x{ratio:.3f} (95 % interval {low:.3f} to {high:.3f}), p = {p:.3g}"
    if p <= plan.alpha and gain >= plan.min_effect:
        return passed(RULE, f"{said}: better by {gain:.1%}", *trials)
    if best < plan.min_effect:
        return failed(RULE, f"{said}: even the best case is below the least effect of {plan.min_effect:.1%}", *trials)
    return inconclusive(
        RULE, f"{said}: the sample can't tell at level {plan.alpha:g} and least effect {plan.min_effect:.1%}", *trials
    )
