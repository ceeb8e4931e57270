"""Was every offered request answered for, once?"""

from __future__ import annotations

from collections import Counter

from tools.measure.measurement import Measurement
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "accounting.balance"


def verify(evidence: Evidence) -> Verdict:
    """offered = completed + failed + timed out; no request is recorded twice, and none that wasn't offered."""
    if not evidence.measured:
        return error(RULE, "no trial was measured")
    for trial, measured in evidence.measured:
        problem = _problem(measured)
        if problem:
            return failed(RULE, f"trial {trial.id}: {problem}", trial)
    offered, done, lost, late = (
        sum(getattr(measured, name) for _, measured in evidence.measured)
        for name in ("offered", "completed", "failed", "timed_out")
    )
    told = f"all {offered} requests are accounted for: {done} completed, {lost} failed, {late} timed out"
    return passed(RULE, told, *evidence.trials)


def _problem(measured: Measurement) -> str:
    times = Counter(record.index for record in measured.records)
    index, most = times.most_common(1)[0] if times else (0, 0)
    if most > 1:
        return f"request {index} was recorded {most} times"
    foreign = [index for index in times if not 0 <= index < measured.offered]
    if foreign and not measured.cut_short:
        return f"request {foreign[0]} was recorded, and {measured.offered} were offered"
    ended = measured.completed + measured.failed + measured.timed_out
    if ended != measured.offered:
        return f"{abs(measured.offered - ended)} of {measured.offered} requests are unaccounted for, {ended} ended"
    return ""
