"""Are there launches enough for the claim?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.looking import look_after, whole_blocks
from verifiers.statistics.blocked import smallest_blocked_p
from verifiers.statistics.foresight import least_blocks
from verifiers.verdict import Verdict, error, failed, inconclusive, passed

RULE = "replication.enough"

LEAST = 2
"Blocks, whatever the level: two launches an arm show nothing."


def verify(evidence: Evidence) -> Verdict:
    """k blocks can't have a p below 6 ** -k, nor more evidence than 6 ** k to 1, whatever they hold.

    A confirmation that its rule ended early for want of a gain claims nothing, and so has enough.
    """
    plan, trials = evidence.plan, evidence.confirmation
    if plan is None:
        return error(RULE, "there is no plan")
    blocks = len(whole_blocks(trials))
    if not blocks:
        return error(RULE, "no whole block was measured", *trials)
    arms = [sum(trial.arm == arm for trial in trials) for arm in ("A", "B")]
    if arms[0] != arms[1]:
        return failed(RULE, f"{arms[0]} launches of the baseline against {arms[1]} of the candidate", *trials)
    least, smallest = max(LEAST, least_blocks(plan.level)), smallest_blocked_p(blocks)
    if blocks >= least:
        return passed(RULE, f"{arms[0]} launches an arm: p can be as small as {smallest:.2g}", *trials)
    found = look_after(evidence, plan)
    if found is not None and found.decision in ("reject", "exhausted"):
        return passed(RULE, f"{arms[0]} launches an arm are enough for not changing anything", *trials)
    return inconclusive(
        RULE,
        f"{arms[0]} launches an arm can't have a p below {smallest:.2g}; level {plan.level:.3g} takes "
        f"{2 * (least - blocks)} more of each",
        *trials,
    )
