"""Was the same change confirmed before, and is it paid for?"""

from __future__ import annotations

import math

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "attempts.bounded"

MOST_A_DAY = 3
WITHIN_S = 24 * 3600.0


def verify(evidence: Evidence) -> Verdict:
    """At most three confirmations of a change a day, each at alpha divided by how many there are with it.

    A null that is tried until it passes passes in the end. Each attempt keeps its own level; all three of a day accept
    what is no better with a probability of at most alpha * (1 + 1/2 + 1/3), 1.83 alpha.
    """
    plan, attempts = evidence.plan, evidence.attempts
    if plan is None:
        return error(RULE, "there is no plan")
    told = ", ".join(f"{attempt.verdict} in {attempt.run}" for attempt in attempts)
    tried = len(attempts) + 1
    if tried > MOST_A_DAY:
        return failed(RULE, f"this is attempt {tried} within a day, {MOST_A_DAY} are allowed; before it: {told}")
    if plan.attempts < len(attempts):
        return failed(RULE, f"the plan counts {plan.attempts} earlier attempts, there were {len(attempts)}: {told}")
    owed = plan.alpha / tried
    if plan.level > owed and not math.isclose(plan.level, owed):
        return failed(
            RULE, f"level {plan.level:.3g} at attempt {tried}, it may be at most {owed:.3g}; before it: {told}"
        )
    if not attempts:
        return passed(RULE, f"the first attempt within a day, at level {plan.level:.3g}")
    together = plan.alpha * sum(1 / number for number in range(1, tried + 1))
    return passed(
        RULE,
        f"attempt {tried} of at most {MOST_A_DAY} a day, at level {plan.level:.3g}, all together at {together:.3g}; "
        f"before it: {told}",
    )
