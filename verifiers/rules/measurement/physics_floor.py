"""Is any measured latency below what the machine can physically do?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "physics.floor"


def verify(evidence: Evidence) -> Verdict:
    """Median TTFT and TPOT of every trial, in ms, against the roofline's floors: prompt arithmetic, weights read once.

    A workload whose answers have one token has no TPOT; its TTFT is asked all the same.
    """
    if not evidence.floors_ms:
        return error(RULE, "the machine's roofline is unknown")
    measured = [trial for trial in evidence.trials if trial.measurement]
    if not measured:
        return error(RULE, "no trial was measured")
    floors, fastest = evidence.floors_ms, dict[str, float]()
    for trial in measured:
        known = {name: trial.summary.get(f"median_{name}") for name in floors}
        if not any(known.values()):
            return error(RULE, f"trial {trial.id} has no latency to compare", trial)
        for name, value in known.items():
            if value is None:
                continue
            if value < floors[name]:
                claim = f"trial {trial.id} claims a median {name} of {value:.2f}"
                return failed(RULE, f"{claim}, the roofline's floor is {floors[name]:.2f}", trial)
            fastest[name] = min(value, fastest.get(name, value))
    told = ", ".join(f"{name} {value:.2f} (floor {floors[name]:.2f})" for name, value in sorted(fastest.items()))
    return passed(RULE, f"the fastest medians lie above the roofline's floors: {told}", *measured)
