"""Has this very config been tried in this run already?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.faults import HARNESS_FAULTS
from verifiers.verdict import Verdict, failed, passed

RULE = "duplicate.config"


def verify(evidence: Evidence) -> Verdict:
    """A second trial of one config teaches the search nothing; re-measuring is an action of its own.

    A launch that failed by a fault of the harness has tried nothing.
    """
    for trial in evidence.trials:
        if trial.config == evidence.candidate and trial.failure not in HARNESS_FAULTS:
            return failed(RULE, f"this config was tried already in trial {trial.id}", trial)
    return passed(RULE, "this config is new in this run")
