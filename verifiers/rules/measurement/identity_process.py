"""Did one process, started for this trial alone, answer it from beginning to end?"""

from __future__ import annotations

from tools.targets.spec import ExternalSpec
from tools.targets.target import Identity
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "identity.process"
_SLACK_S = 30.0
"Most that the server's word on its start may differ from the operating system's, beside the time it took to load."


def verify(evidence: Evidence) -> Verdict:
    """The same process before and after, the one that the operating system saw start, of one engine, and fresh.

    A server that somebody else runs has no process here: by its own word it has to be one and the same throughout a
    load, and another one for another config.
    """
    if not evidence.measured:
        return error(RULE, "no trial was measured")
    served: dict[str, Identity] = {}
    external = isinstance(evidence.deployment.target, ExternalSpec)
    for trial, measured in evidence.measured:
        before, after = measured.identity_before, measured.identity_after
        if before is None or after is None:
            return error(RULE, f"the server of trial {trial.id} wasn't identified", trial)
        if (before.pid, before.started_at) != (after.pid, after.started_at):
            change = f"process {before.pid} began to answer it and process {after.pid} ended"
            if before.pid == after.pid:
                change = f"its server was started anew, {after.started_at - before.started_at:+.0f} s later"
            return failed(RULE, f"trial {trial.id} was answered by two servers: {change}", trial)
        served[trial.id] = before
        if external:
            continue
        if not before.process_started_at:
            return error(RULE, f"the operating system knows nothing of the server of trial {trial.id}", trial)
        apart_s = before.started_at - before.process_started_at
        if not -_SLACK_S <= apart_s <= trial.ready_s + _SLACK_S:
            told = f"the process that we started is {apart_s:+.0f} s from the start that the server states"
            return failed(RULE, f"trial {trial.id} was answered by a process that we did not start: {told}", trial)
    engines = {identity.engine for identity in served.values()}
    if len(engines) > 1:
        return failed(RULE, f"{len(engines)} engines answered: {', '.join(sorted(engines))}", *evidence.trials)
    launches: dict[float, TrialEvidence] = {}
    for trial, _ in evidence.measured:
        first = launches.setdefault(served[trial.id].started_at, trial)
        if first.id != trial.id and not (external and first.config == trial.config):
            told = f"trials {first.id} and {trial.id} were answered by one launch; each must have a fresh one"
            return failed(RULE, told, first, trial)
    if external:
        told = f"by its own word one server answered each of {len(served)} loads throughout"
        return passed(RULE, told, *evidence.trials)
    return passed(RULE, f"{len(served)} fresh launches, each answered by its own process", *evidence.trials)
