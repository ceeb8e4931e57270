"""Is no guarded metric worse than allowed?"""

from __future__ import annotations

from tools.measure.summary import lower_is_better
from verifiers.evidence import Evidence
from verifiers.looking import blocks_of
from verifiers.statistics.holm import holm
from verifiers.statistics.rail import LEVEL, Rail, rail
from verifiers.verdict import Verdict, error, failed, inconclusive, passed

RULE = "guardrails.kept"


def verify(evidence: Evidence) -> Verdict:
    """Non-inferiority: each guardrail must be *shown* to be worse by less than its margin, exactly, within blocks.

    To pass, all must be shown, each at .05: their conjunction needs no correction (Berger 1982). To fail, one must be
    shown to be worse than allowed, and with several that could be, Holm's correction keeps the chance of a wrong
    refusal at .05. What is shown neither way is INCONCLUSIVE.
    """
    plan, trials = evidence.plan, evidence.confirmation
    if plan is None:
        return error(RULE, "there is no plan")
    failures = {arm: _unserved(evidence, arm) for arm in ("A", "B")}
    if failures["B"] > failures["A"]:
        return failed(RULE, f"{failures['B']} requests failed or timed out, {failures['A']} in the baseline", *trials)
    rails: dict[str, Rail] = {}
    for metric, margin in sorted(plan.guardrails.items()):
        if not trials or any(metric not in trial.summary for trial in trials):
            return error(RULE, f"{metric} could not be measured in every launch", *trials)
        blocks = blocks_of(trials, metric)
        if blocks is None:  # zeroes have no ratio: hits, rejects, pauses
            if _rose(evidence, metric, margin):
                return inconclusive(
                    RULE, f"{metric} can be zero, and is worse than in the baseline's worst launch", *trials
                )
            continue
        rails[metric] = rail(blocks, lower_is_better(metric), margin)
    adjusted = holm({metric: found.p_broken for metric, found in rails.items()})
    for metric, found in rails.items():
        if adjusted[metric] <= LEVEL:
            return failed(RULE, f"{metric} is {_said(found)}: shown, p = {adjusted[metric]:.2g}", *trials)
    doubtful = [
        f"{metric} is {_said(found)}, p = {found.p_kept:.2g}" for metric, found in rails.items() if not found.kept
    ]
    if doubtful:
        return inconclusive(RULE, f"neither kept nor broken beyond chance: {'; '.join(doubtful)}", *trials)
    return passed(RULE, "no more failures" + "".join(f", {m} {_said(r)}" for m, r in rails.items()), *trials)


def _said(found: Rail) -> str:
    change = f"worse by {found.worse:.1%}" if found.worse > 0 else f"better by {-found.worse:.1%}"
    return f"{change}, allowed {found.margin:.1%}"


def _unserved(evidence: Evidence, arm: str) -> int:
    return sum(t.measurement.failed + t.measurement.timed_out for t in evidence.arm(arm) if t.measurement)


def _rose(evidence: Evidence, metric: str, margin: float) -> bool:
    """Whether any launch of the candidate is worse than every one of the baseline's, beyond the margin."""
    standing, candidate = ([t.summary[metric] for t in evidence.arm(arm)] for arm in ("A", "B"))
    if lower_is_better(metric):
        return max(candidate) > max(standing) * (1 + margin)
    return min(candidate) * (1 + margin) < min(standing)
