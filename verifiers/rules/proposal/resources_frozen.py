"""Does the candidate run on exactly the hardware that the baseline runs on?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.rules.proposal.denied import RESOURCES
from verifiers.verdict import Verdict, error, failed, passed

RULE = "resources.frozen"

_FROZEN = ("cores", "gpus", "replicas")


def verify(evidence: Evidence) -> Verdict:
    """Replicas, GPUs, cores and the degrees of parallelism are no knobs: more of them is a purchase, not a gain.

    Asked of the proposal's words before a launch, and of what every launch of the confirmation ran on after it.
    """
    for name in sorted({*evidence.changes, *evidence.patch}):
        if why := RESOURCES.why(name):
            return failed(
                RULE, f"{name} decides how much hardware is used ({why}); that is the owner's plan to make, not a gain"
            )
    if evidence.plan is None:
        return passed(RULE, "leaves replicas, GPUs, cores and parallelism as they are")
    trials = evidence.confirmation
    baseline = [trial for trial in trials if trial.arm == "A"]
    if not baseline or len(baseline) == len(trials):
        return error(RULE, "there are no launches of both configs to compare what they ran on", *trials)
    for trial in trials:
        missing = [name for name in _FROZEN if name not in trial.resources]
        if missing:
            return error(RULE, f"trial {trial.id} doesn't say its {', '.join(missing)}", trial)
        for name in _FROZEN:
            used, allowed = trial.resources[name], baseline[0].resources[name]
            if used != allowed:
                return failed(
                    RULE, f"trial {trial.id} ran on {used:g} {name}, the baseline on {allowed:g}", baseline[0], trial
                )
    used_text = ", ".join(f"{baseline[0].resources[name]:g} {name}" for name in _FROZEN)
    return passed(RULE, f"every launch ran on the same hardware: {used_text}", *trials)
