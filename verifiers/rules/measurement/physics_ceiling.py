"""Is any measured throughput above what the machine can physically do?"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from tools.measure.records import RequestRecord
from tools.profile.physics import ModelFacts, Traffic, ceilings
from tools.profile.roofline import Roofline
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "physics.ceiling"


def verify(evidence: Evidence) -> Verdict:
    """Requests, output tokens and tokens in all per second of every trial, against what the machine's bandwidth and
    arithmetic allow for such requests (`tools.profile.physics`), however many were in flight together.

    What the cache may have held needn't be computed: as much of each prompt as the workload shares.
    """
    if evidence.no_physics:
        return passed(RULE, f"no ceiling follows from the machine: {evidence.no_physics}")
    if not evidence.roofline or not evidence.physics:
        return error(RULE, "the machine's roofline or the model's size is unknown")
    if not evidence.measured:
        return error(RULE, "no trial was measured")
    try:
        roofline, facts = Roofline.from_json(evidence.roofline), ModelFacts.from_json(evidence.physics["model"])
    except (KeyError, TypeError, ValueError) as wrong:
        return error(RULE, f"the recorded roofline can't be read: {wrong}")
    closest, told = 0.0, ""
    for trial, measured in evidence.measured:
        traffic = _traffic(trial, measured.records)
        if traffic is None:
            return error(RULE, f"the answers of trial {trial.id} don't tell their tokens", trial)
        for metric, most in ceilings(roofline, facts, traffic).items():
            value = trial.summary.get(metric)
            if value is None:
                return error(RULE, f"trial {trial.id} has no {metric}", trial)
            if not value <= most:
                claim = f"trial {trial.id} claims a {metric} of {value:,.1f} per second"
                return failed(RULE, f"{claim}, the roofline's ceiling is {most:,.1f}", trial)
            if value / most >= closest:
                closest, told = value / most, f"{metric} {value:,.1f} (ceiling {most:,.1f})"
    return passed(RULE, f"the throughput closest to the roofline's ceiling lies below it: {told}", *evidence.trials)


def _traffic(trial: TrialEvidence, records: Sequence[RequestRecord]) -> Traffic | None:
    ok = [record for record in records if record.outcome == "ok"]
    if not ok or trial.declared_sharing is None:
        return None
    prompt_tokens = fmean(record.prompt_tokens or 0 for record in ok)
    output_tokens = fmean(record.output_tokens or 0 for record in ok)
    if not prompt_tokens or not output_tokens:
        return None
    new_tokens = prompt_tokens * (1 - trial.declared_sharing)
    return Traffic(prompt_tokens, new_tokens, output_tokens, batch=_most_in_flight(records))


def _most_in_flight(records: Sequence[RequestRecord]) -> int:
    """Most requests between their send and their end at one moment, by the client."""
    moments = sorted([(r.sent_s, 1) for r in records] + [(r.end_s, -1) for r in records])
    most = now = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most
