"""Was everything measured on one machine with one set of software?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "environment.same"


def verify(evidence: Evidence) -> Verdict:
    """The fingerprint of hardware and software is the same in every trial of the run, the search's baseline too: a
    baseline from elsewhere, or from before an update, is none."""
    if not evidence.trials:
        return error(RULE, "there is no trial")
    everything = {trial.id: trial for trial in (*evidence.trials, *evidence.search)}
    unknown = [trial for trial in everything.values() if not trial.environment]
    if unknown:
        return error(RULE, f"the environment of trial {unknown[0].id} is unknown", unknown[0])
    first = evidence.trials[0]
    for trial in everything.values():
        if trial.environment != first.environment:
            told = f"{first.environment[:12]} for {first.id}, {trial.environment[:12]} for {trial.id}"
            count = len({one.environment for one in everything.values()})
            return failed(RULE, f"the trials come from {count} different environments: {told}", first, trial)
    told = f"all {len(everything)} trials of the run share one hardware and software fingerprint"
    return passed(RULE, told, *evidence.trials)
