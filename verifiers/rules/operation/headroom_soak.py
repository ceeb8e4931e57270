"""Does the candidate bear a burst and then more load than promised, without failing, restarting or growing?"""

from __future__ import annotations

from tools.measure.measurement import Measurement
from tools.service.soak import soaking
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.faults import HARNESS_FAULTS
from verifiers.verdict import Verdict, error, failed, inconclusive, passed

RULE = "headroom.soak"

LARGEST_GROWTH = 0.10
"""Of the server's resident memory from the middle of the soak to its end: what a short soak can't tell from a leak.
Growing into what the closed formula sets aside (a KV cache whose blocks are touched one by one) is no leak."""

MOST_PREEMPTIONS = 1.0
"""Preemptions per request; each request computed twice. Or twice what the baseline's launches had, if that is more."""

_CLOCK_S = 1.0
"The OS tells a process's start in ticks since boot; two readings of it differ by some milliseconds."


def verify(evidence: Evidence) -> Verdict:
    """One fresh launch of the candidate under `tools.service.soak`: all at once, then above the promised load."""
    soaks = [trial for trial in evidence.extra if trial.role == "soak"]
    if not soaks:
        return inconclusive(RULE, "the candidate wasn't soaked; only one whose confirmation passes is")
    for trial in soaks:
        if trial.config != evidence.candidate:
            return failed(RULE, f"trial {trial.id} soaked another config than the candidate", trial)
        if trial.measurement is None:
            tell = error if trial.failure in HARNESS_FAULTS else failed
            return tell(RULE, f"the server didn't survive the soak: {trial.failure or 'no measurement'}", trial)
        if trial.spec_digest != soaking(evidence.deployment.workload).digest:
            return failed(RULE, f"trial {trial.id} wasn't loaded as a soak is", trial)
        if refusal := _service(trial, trial.measurement) or _memory(evidence, trial):
            return refusal
        if refusal := _preemptions(evidence, trial, trial.measurement):
            return refusal
    last = soaks[-1]
    assert last.measurement is not None
    return passed(
        RULE,
        f"answered all {last.measurement.offered} requests of a burst and a load above the promised one, in one "
        f"process, with {last.resources['rss_after_bytes'] / 2**20:.0f} MiB resident at the end",
        *soaks,
    )


def _service(trial: TrialEvidence, soak: Measurement) -> Verdict | None:
    # The baseline has served such a burst in the calibration, or the run would have ended there.
    lost = soak.offered - soak.completed
    if lost:
        return failed(
            RULE,
            f"{lost} of {soak.offered} requests were lost ({soak.failed} failed, {soak.timed_out} timed out)",
            trial,
        )
    before, after = soak.identity_before, soak.identity_after
    if before is None or after is None:
        return error(RULE, f"trial {trial.id} doesn't say which process answered before and after", trial)
    drift_s = abs(before.process_started_at - after.process_started_at)
    if (before.pid, before.started_at) != (after.pid, after.started_at) or drift_s > _CLOCK_S:
        return failed(RULE, "the server was restarted during the soak", trial)
    return None


def _memory(evidence: Evidence, trial: TrialEvidence) -> Verdict | None:
    middle, end = (trial.resources.get(f"rss_{when}_bytes") for when in ("middle", "after"))
    if not middle or not end:
        return error(RULE, f"trial {trial.id} doesn't say how much memory the server held", trial)
    if end > max(middle * (1 + LARGEST_GROWTH), evidence.memory_need_bytes or 0):
        return failed(
            RULE,
            f"resident memory grew from {middle / 2**20:.0f} MiB in the middle of the soak to {end / 2**20:.0f} MiB "
            f"at its end, beyond {LARGEST_GROWTH:.0%} and what the closed formula sets aside",
            trial,
        )
    return None


def _preemptions(evidence: Evidence, trial: TrialEvidence, soak: Measurement) -> Verdict | None:
    counted = soak.counted("preemptions")
    if counted is None and not evidence.counts("preemptions"):
        return None
    if counted is None:
        return error(RULE, f"trial {trial.id} doesn't count preemptions", trial)
    before = [
        t.measurement.counted("preemptions") or 0.0 for t in evidence.confirmation if t.arm == "A" and t.measurement
    ]
    usual = max(before, default=0.0) / evidence.deployment.workload.requests
    each, allowed = counted / soak.offered, max(MOST_PREEMPTIONS, 2 * usual)
    if each > allowed:
        return failed(RULE, f"{each:.1f} preemptions a request in the soak, allowed {allowed:.1f}", trial)
    return None
