"""Are the numbers the server's at all, or the client's, or those of a clock, a buffer or a mistake?"""

from __future__ import annotations

from tools.measure.doubts import doubts
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, inconclusive, passed

RULE = "soundness.doubts"


def verify(evidence: Evidence) -> Verdict:
    """No trial has a doubt that makes it invalid (see `tools.measure.doubts`), such as a client that was the limit.
    What needs the workload, prefix hits, is asked by `cache.prefix_hits`.

    An invalid trial is no slow trial and no fast one: nothing follows from it, so it is measured again or left.
    """
    if not evidence.measured:
        return error(RULE, "no trial was measured")
    for trial, measured in evidence.measured:
        for doubt in doubts(measured, floor=evidence.client_floor):
            if doubt.invalid:
                return inconclusive(RULE, f"trial {trial.id} is invalid ({doubt.name}): {doubt.sentence}", trial)
    count = len(evidence.measured)
    return passed(RULE, f"nothing speaks against the {count} measurements themselves", *evidence.trials)
