"""Is each trial of the confirmation a launch of its own?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "replication.launches"


def verify(evidence: Evidence) -> Verdict:
    """As many server processes as trials, and no measurement twice: requests of one launch share its luck, so however
    many there are, they are one observation."""
    trials = evidence.confirmation
    if not trials:
        return error(RULE, "no launch of a confirmation was recorded")
    processes: dict[tuple[int | None, float | None], str] = {}
    heard: dict[tuple[tuple[float, float], ...], str] = {}
    for trial in trials:
        measurement = trial.measurement
        if measurement is None:
            continue
        served = measurement.identity_before
        if served is None or served.process_started_at is None:
            return error(RULE, f"launch {trial.id} doesn't tell which process served it", trial)
        process = (served.pid, served.process_started_at)
        if process in processes:
            return failed(
                RULE, f"{trial.id} was served by the process of {processes[process]}: one launch isn't two", *trials
            )
        # No two loads are alike in every moment to the last digit, whatever stands around them.
        moments = tuple((record.sent_s, record.end_s) for record in measurement.records)
        if moments in heard:
            return failed(RULE, f"{trial.id} is the measurement of {heard[moments]} over again", *trials)
        processes[process] = heard[moments] = trial.id
    if not processes:
        return error(RULE, "no launch was measured", *trials)
    return passed(RULE, f"{len(processes)} measurements from {len(processes)} server processes", *trials)
