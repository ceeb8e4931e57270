"""Were the confirmation's requests unknown to whoever chose the candidate, and its load perturbed?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "plan.hidden_seeds"


def verify(evidence: Evidence) -> Verdict:
    """Seeds follow from the run and the candidate alone, one a block; none, and no request, was seen in the search."""
    plan, trials = evidence.plan, evidence.confirmation
    if plan is None:
        return error(RULE, "there is no plan")
    if not trials:
        return error(RULE, "no launch of a confirmation was recorded")
    drawn = plan.draw(
        plan.run, evidence.deployment, plan.baseline_digest, plan.candidate_digest, attempts=plan.attempts
    )
    seeds = [block.seed for block in plan.blocks]
    seen = {trial.seed for trial in evidence.search}
    if seen & set(seeds):
        return failed(RULE, "a seed of the confirmation was used in the search", *trials)
    if len(set(seeds)) != len(seeds):
        return failed(RULE, "two blocks of the confirmation have the same requests", *trials)
    if seeds != [block.seed for block in drawn.blocks[: len(seeds)]]:
        return failed(
            RULE, "the seeds aren't those that follow from the run and the candidate: someone chose them", *trials
        )
    known = {t.measurement.workload_digest for t in evidence.search if t.measurement}
    repeated = [t for t in trials if t.measurement and t.measurement.workload_digest in known]
    if repeated:
        return failed(RULE, f"launch {repeated[0].id} was asked the very requests of the search", *repeated)
    factors = sorted({trial.load_factor for trial in trials})
    told = ", ".join(f"x{factor:g}" for factor in factors)
    return passed(
        RULE,
        f"{len({t.seed for t in trials})} seeds that the search never saw, at loads of {told} of the deployment's",
        *trials,
    )
