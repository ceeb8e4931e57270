"""Is any measured latency below what the machine can physically do?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "physics.floor"


def verify(evidence: Evidence) -> Verdict:
    """Median TPOT of every trial, in ms, against the roofline's floor: reading the weights once."""
    floor = evidence.tpot_floor_ms
    if floor is None:
        return error(RULE, "the machine's roofline is unknown")
    measured = [trial for trial in evidence.trials if "median_tpot_ms" in trial.summary]
    if not measured:
        return error(RULE, "no trial has a TPOT")
    for trial in measured:
        tpot = trial.summary["median_tpot_ms"]
        if tpot < floor:
            return failed(
                RULE, f"trial {trial.id} claims {tpot:.2f} ms a token, the roofline's floor is {floor:.2f} ms", trial
            )
    fastest = min(trial.summary["median_tpot_ms"] for trial in measured)
    return passed(RULE, f"fastest median TPOT {fastest:.2f} ms, the roofline's floor is {floor:.2f} ms", *measured)
