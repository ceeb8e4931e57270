"""Was the same change confirmed before, and is it paid for?"""

from __future__ import annotations

import math

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "attempts.bounded"

MOST_A_DAY = 3
WITHIN_S = 24 * 3600.0


def verify(evidence: Evidence) -> Verdict:
    """At most three confirmations of a change a day, each at a level divided by how many there are (Bonferroni).

    A null that is tried until it passes passes in the end; with the level divided, all attempts together don't accept
    it more often than one may.
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
    return passed(RULE, f"attempt {tried} of at most {MOST_A_DAY} a day, at level {plan.level:.3g}; before it: {told}")
