"""Did anything get worse that must not?"""

from __future__ import annotations

from tools.measure.summary import lower_is_better
from verifiers.evidence import Evidence
from verifiers.statistics.rank_test import hodges_lehmann_ratio
from verifiers.verdict import Verdict, error, failed, passed

RULE = "guardrails.kept"


def verify(evidence: Evidence) -> Verdict:
    """Hodges-Lehmann ratio of every guardrail metric within its margin; no more lost requests than the baseline."""
    plan, trials = evidence.plan, evidence.confirmation
    if plan is None:
        return error(RULE, "there is no plan")
    failures = {arm: _unserved(evidence, arm) for arm in ("A", "B")}
    if failures["B"] > failures["A"]:
        return failed(RULE, f"{failures['B']} requests failed or timed out, {failures['A']} in the baseline", *trials)
    kept = []
    for metric, margin in sorted(plan.guardrails.items()):
        baseline, candidate = evidence.values("A", metric), evidence.values("B", metric)
        if not baseline or not candidate:
            return error(RULE, f"{metric} could not be measured in every launch", *trials)
        if min(*baseline, *candidate) <= 0:
            return error(RULE, f"{metric} has a value of zero or less", *trials)
        ratio = hodges_lehmann_ratio(baseline, candidate)
        worse = ratio - 1 if lower_is_better(metric) else 1 / ratio - 1
        if worse > margin:
            return failed(RULE, f"{metric} x{ratio:.3f}: worse by {worse:.1%}, allowed {margin:.1%}", *trials)
        kept.append(f"{metric} x{ratio:.3f}")
    return passed(RULE, "no more failures" + "".join(f", {text}" for text in kept), *trials)


def _unserved(evidence: Evidence, arm: str) -> int:
    return sum(t.measurement.failed + t.measurement.timed_out for t in evidence.arm(arm) if t.measurement)
