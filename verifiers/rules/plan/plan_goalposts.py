"""Is it judged by what was declared before anything was measured?"""

from __future__ import annotations

import math

from pydantic import ValidationError

from tools.deployment import Deployment
from tools.ledger import Entry
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "plan.goalposts"


def verify(evidence: Evidence) -> Verdict:
    """Metric, least effect, level and guardrails of the plan against the deployment's; one plan, one deployment."""
    plan, deployment = evidence.plan, evidence.deployment
    if plan is None:
        return error(RULE, "there is no plan")
    objective = deployment.objective
    pairs = {
        "metric": (plan.metric, objective.metric),
        "least effect": (plan.min_effect, objective.min_effect),
        "alpha": (plan.alpha, deployment.acceptance.alpha),
        "guardrails": (dict(plan.guardrails), {rail.metric: rail.max_regression for rail in deployment.guardrails}),
    }
    for name, (planned, declared) in pairs.items():
        if planned != declared:
            return failed(RULE, f"the plan's {name} is {planned}, the deployment declared {declared}")
    expected = plan.draw(plan.run, deployment, plan.baseline_digest, plan.candidate_digest).target
    if not math.isclose(plan.target, expected):
        return failed(RULE, f"the plan looks for a gain of {plan.target:.1%}, its design for {expected:.1%}")
    plans, started = evidence.of_kind("plan"), evidence.of_kind("run.started")
    if len(plans) > 1:
        return failed(RULE, f"{len(plans)} plans were recorded, so one could be picked when the data was known")
    for entry in started:
        if not _declared(entry, deployment) or entry.seq > evidence.plan_seq >= 0:
            return failed(RULE, "objective, promise or guardrails aren't those that the run started with")
    direction = "lower" if objective.lower_is_better else "higher"
    rails = ", ".join(sorted(plan.guardrails)) or "none"
    return passed(
        RULE,
        f"judged as declared: {plan.metric}, {direction} is better, least effect {plan.min_effect:.1%}, "
        f"guardrails {rails}",
    )


def _declared(entry: Entry, deployment: Deployment) -> bool:
    """Whether `deployment` is what the run's first entry declares; one that declares none can't contradict it."""
    if "deployment" not in entry.data:
        return True
    try:
        return Deployment.model_validate(entry.data["deployment"]) == deployment
    except ValidationError:
        return False
