"""Was everything that was offered answered?"""

from __future__ import annotations

from collections import Counter

from tools.measure.doubts.doubt import Case, Doubt

__all__ = ["unanswered"]


def unanswered(case: Case) -> Doubt | None:
    """Requests that failed, timed out or left no record; INVALID where none was answered."""
    measured = case.measurement
    missing = measured.offered - len(measured.records)
    lost = measured.failed + measured.timed_out + missing
    if lost <= 0:
        return None
    reasons = Counter(
        "timed_out" if record.outcome == "timed_out" else record.error.split(":")[0] or "failed"
        for record in case.records
        if record.outcome != "ok"
    )
    if missing > 0:
        reasons["no_record"] = missing
    told = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common(4))
    evidence = {"offered": measured.offered, "failed": measured.failed, "timed_out": measured.timed_out}
    if not measured.completed:
        return Doubt(
            "unanswered",
            True,
            f"none of {measured.offered} requests was answered ({told}): there is nothing to measure. Look at the "
            "server's log",
            evidence,
        )
    return Doubt(
        "unanswered",
        False,
        f"{lost} of {measured.offered} requests weren't answered ({told}): percentiles count them as slower than any "
        "other, throughput leaves them out. Look at the server's log, or offer less",
        evidence,
    )
