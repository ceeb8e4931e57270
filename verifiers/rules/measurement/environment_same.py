"""Was everything measured on one machine with one set of software?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "environment.same"


def verify(evidence: Evidence) -> Verdict:
    """The hardware and software fingerprint of every trial is the same."""
    prints = {trial.environment for trial in evidence.trials}
    if not prints or "" in prints:
        return error(RULE, "the environment of a trial is unknown")
    if len(prints) > 1:
        return failed(RULE, f"the trials come from {len(prints)} different environments", *evidence.trials)
    return passed(RULE, "all trials share one hardware and software fingerprint", *evidence.trials)
