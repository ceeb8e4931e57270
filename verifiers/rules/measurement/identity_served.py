"""Was what was measured what was asked for?"""

from __future__ import annotations

from tools.canonical import digest
from tools.targets.target import Identity
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "identity.served"
_CLOCK_SLACK_S = 30.0
"Most that the server's word on its start may differ from the operating system's: loading takes time."


def verify(evidence: Evidence) -> Verdict:
    """Same process before and after, effective config as asked, one model and engine; two sources agree."""
    measured = [trial for trial in evidence.trials if trial.measurement]
    if not measured:
        return error(RULE, "no trial was measured")
    for trial in measured:
        m = trial.measurement
        if m is None or m.identity_before is None or m.identity_after is None:
            return error(RULE, f"the server of trial {trial.id} was not identified", trial)
    reference = _before(measured[0])
    for trial in measured:
        before, after = _before(trial), _after(trial)
        if (before.started_at, before.pid, before.config_digest) != (after.started_at, after.pid, after.config_digest):
            return failed(RULE, f"the server of trial {trial.id} changed while it was measured", trial)
        wrong = _not_applied(evidence, trial, before)
        if wrong:
            return failed(RULE, f"trial {trial.id} asked for {wrong}", trial)
        if before.config_digest and before.config_digest != digest(dict(before.config)):
            return failed(RULE, f"the two sources of trial {trial.id} state different configs", trial)
        if {before.model_digest, after.model_digest} != {evidence.model_digest}:
            return failed(RULE, f"trial {trial.id} served another model than the one that was asked for", trial)
        if before.engine != reference.engine:
            return failed(RULE, f"trial {trial.id} served another engine than trial {measured[0].id}", trial)
        if before.process_started_at and abs(before.started_at - before.process_started_at) > _CLOCK_SLACK_S:
            return failed(RULE, f"trial {trial.id} was answered by a process that we did not start", trial)
    starts = [_before(trial).started_at for trial in measured]
    if len(set(starts)) != len(starts):
        return failed(RULE, "two trials were answered by one launch; each must have a fresh one", *measured)
    return passed(
        RULE, f"{len(measured)} fresh launches served the model and the config that were asked for", *measured
    )


def _before(trial: TrialEvidence) -> Identity:
    assert trial.measurement is not None and trial.measurement.identity_before is not None
    return trial.measurement.identity_before


def _after(trial: TrialEvidence) -> Identity:
    assert trial.measurement is not None and trial.measurement.identity_after is not None
    return trial.measurement.identity_after


def _not_applied(evidence: Evidence, trial: TrialEvidence, served: Identity) -> str:
    """What the server doesn't run with although it was asked for; empty if all was applied, unclamped."""
    for name, wanted in trial.config.values.items():
        knob = evidence.space[name]
        if name not in served.config:
            return f"{name}={wanted}, which the server doesn't report"
        if wanted != served.config[name] and (knob.auto is None or wanted != knob.auto):
            return f"{name}={wanted}, the server runs with {served.config[name]}"
    return ""
