"""Was the confirmation fixed before its first trial, and carried out exactly as planned?"""

from __future__ import annotations

from tools.service.load_spec import at_load
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "plan.kept"


def verify(evidence: Evidence) -> Verdict:
    """Plan recorded first, its hash unchanged, every slot measured once in order, on seeds the search never saw."""
    plan, trials = evidence.plan, evidence.confirmation
    if plan is None:
        return error(RULE, "there is no plan")
    if plan.digest != evidence.plan_digest:
        return failed(RULE, "the plan isn't the one that was hashed into the ledger")
    if evidence.candidate is None or plan.candidate_digest != evidence.candidate.digest:
        return failed(RULE, "the plan is for another candidate")
    expected = plan.draw(plan.run, evidence.deployment, evidence.baseline.digest, plan.candidate_digest)
    if plan != expected:
        return failed(RULE, "the plan isn't what the deployment's acceptance section asks for")
    early = [trial for trial in trials if trial.seq < evidence.plan_seq]
    if early:
        return failed(RULE, f"trial {early[0].id} was measured before the plan was fixed", *early)
    if len(trials) != len(plan.slots):
        return error(RULE, f"{len(trials)} of {len(plan.slots)} planned trials were carried out", *trials)
    for slot, trial in zip(plan.slots, trials, strict=True):
        config = evidence.baseline if slot.arm == "A" else evidence.candidate
        if (trial.arm, trial.seed, trial.config) != (slot.arm, slot.seed, config):
            return failed(RULE, f"trial {trial.id} isn't the one planned for its place", trial)
        if trial.spec_digest != at_load(evidence.deployment.workload, slot.load_factor).digest:
            return failed(RULE, f"trial {trial.id} ran another workload than the deployment's", trial)
    seen = {trial.seed for trial in evidence.search}
    if seen & {slot.seed for slot in plan.slots}:
        return failed(RULE, "a seed of the confirmation was used in the search")
    order = "".join(slot.arm for slot in plan.slots)
    return passed(
        RULE, f"{len(trials)} fresh launches in the planned order {order}, on seeds the search never saw", *trials
    )
