"""Is no guarded metric worse than allowed?"""

from __future__ import annotations

from statistics import median

from verifiers.evidence import Evidence
from verifiers.looking import rail_of
from verifiers.statistics.holm import holm
from verifiers.statistics.rail import LEVEL, Rail
from verifiers.verdict import Verdict, error, failed, inconclusive, passed

RULE = "guardrails.kept"


def verify(evidence: Evidence) -> Verdict:
    """Non-inferiority: each guardrail must be *shown* to be worse by less than its margin, exactly, within blocks.

    To pass, all must be shown, each at .05: their conjunction needs no correction (Berger 1982). To fail, one must be
    shown to be worse than allowed, and with several that could be, Holm's correction keeps the chance of a wrong
    refusal at .05. The stopping rule asks the same after every block; that costs neither level, for the evidence is a
    wager's. What is shown neither way is INCONCLUSIVE. Lost requests are another question's business, unless guarded.
    """
    plan, trials = evidence.plan, evidence.confirmation
    if plan is None:
        return error(RULE, "there is no plan")
    rails: dict[str, Rail] = {}
    for metric, margin in sorted(plan.guardrails.items()):
        found = rail_of(trials, metric, margin) if trials else None
        if found is None:
            return error(RULE, f"{metric} could not be measured in every launch", *trials)
        rails[metric] = found
    said = {metric: _said(evidence, metric, found) for metric, found in rails.items()}
    adjusted = holm({metric: found.p_broken for metric, found in rails.items()})
    for metric in rails:
        if adjusted[metric] <= LEVEL:
            return failed(RULE, f"{said[metric]}: shown, p = {adjusted[metric]:.2g}", *trials)
    doubtful = [f"{said[metric]}, p = {found.p_kept:.2g}" for metric, found in rails.items() if not found.kept]
    if doubtful:
        return inconclusive(RULE, f"neither kept nor broken beyond chance: {'; '.join(doubtful)}", *trials)
    return passed(RULE, "; ".join(said.values()) or "the deployment guards no metric", *trials)


def _said(evidence: Evidence, metric: str, found: Rail) -> str:
    values = {arm: [trial.summary[metric] for trial in evidence.arm(arm)] for arm in ("A", "B")}
    change = f"worse by {found.worse:.1%}" if found.worse > 0 else f"better by {-found.worse:.1%}"
    if min(*values["A"], *values["B"]) <= 0:  # nothing is so many percent more than zero
        change = f"{median(values['B']):.3g}, {median(values['A']):.3g} with the baseline"
    return f"{metric} is {change}, allowed {found.margin:.1%}"
