"""Did the server run with exactly the config that was asked for?"""

from __future__ import annotations

from tools.targets.target import Identity
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "identity.config"


def verify(evidence: Evidence) -> Verdict:
    """Every knob is in effect as it was asked for, before and after the load: none ignored, none clamped.

    A value that stands for one the engine works out (0 threads: all cores) may come back as any other.
    """
    if not evidence.measured:
        return error(RULE, "no trial was measured")
    knobs = 0
    for trial, measured in evidence.measured:
        if measured.identity_before is None or measured.identity_after is None:
            return error(RULE, f"the server of trial {trial.id} wasn't identified", trial)
        if measured.config_digest != trial.config.digest:
            told = f"{measured.config_digest[:12]} was launched, {trial.config.digest[:12]} is on record"
            return failed(RULE, f"trial {trial.id} is recorded under another config than was launched: {told}", trial)
        if not measured.identity_before.config:
            return error(RULE, f"the server of trial {trial.id} doesn't report its config", trial)
        if measured.identity_before.config != measured.identity_after.config:
            return failed(RULE, f"the config of trial {trial.id} changed while it was measured", trial)
        wrong = _not_applied(evidence, trial, measured.identity_before)
        if wrong:
            return failed(RULE, f"trial {trial.id} asked for {wrong}", trial)
        knobs += len(trial.config.values)
    return passed(
        RULE, f"{knobs} knob values of {len(evidence.measured)} launches in effect as asked", *evidence.trials
    )


def _not_applied(evidence: Evidence, trial: TrialEvidence, served: Identity) -> str:
    """What the server doesn't run with although it was asked for; empty if all was applied, unclamped."""
    for name, wanted in trial.config.values.items():
        if name not in served.config:
            return f"{name}={wanted}, which the server doesn't report"
        auto = evidence.space.knobs[name].auto if name in evidence.space.knobs else None
        if wanted != served.config[name] and (auto is None or wanted != auto):
            return f"{name}={wanted}, the server runs with {served.config[name]}"
    return ""
