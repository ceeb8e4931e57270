"""Is the candidate better, beyond chance and by enough to matter?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.looking import look_after
from verifiers.statistics.foresight import POWER
from verifiers.statistics.look import Look
from verifiers.verdict import Verdict, error, failed, inconclusive, passed

RULE = "improvement.primary"


def verify(evidence: Evidence) -> Verdict:
    """The plan's stopping rule over all blocks: evidence that may be looked at any time, exact rank test, least effect.

    The unit of replication is the launch, never the request. The effect is the Hodges-Lehmann ratio within blocks. A
    guardrail in doubt is its own rule's business: here better is better.
    """
    plan, trials = evidence.plan, evidence.confirmation
    if plan is None:
        return error(RULE, "there is no plan")
    found = look_after(evidence, plan) if trials else None
    if found is None or not found.blocks:
        return error(RULE, f"{plan.metric} could not be measured, above zero, in every launch", *trials)
    said = f"{plan.metric} {found.said}"
    if found.better(plan.stopping):
        return passed(RULE, f"{said}: better by {found.gain:.1%}", *trials)
    if found.pointless(plan.stopping):
        return failed(RULE, f"{said}: even the best case is below the least effect of {plan.min_effect:.1%}", *trials)
    return inconclusive(
        RULE,
        f"{said}: the sample can't tell at level {plan.level:.3g} and least effect {plan.min_effect:.1%}; "
        f"{_further(found, plan.min_effect, plan.target)}",
        *trials,
    )


def _further(found: Look, min_effect: float, target: float) -> str:
    gain = f"the gain of {found.gain:.1%} seen" if found.gain > min_effect else f"a gain of {target:.1%}"
    noise = f"at the noise seen ({found.noise:.1%} from launch to launch)"
    if found.further is None:
        return f"{noise} no affordable number of launches would show {gain}"
    return f"{noise} it would take {found.further} further launches an arm to show {gain} with probability {POWER:g}"
