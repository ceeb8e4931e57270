"""Is all the data there that a verdict needs, and is it numbers?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.verdict import Verdict, error, inconclusive, passed

RULE = "data.complete"


def verify(evidence: Evidence) -> Verdict:
    """Every trial has answers, moments that are finite, and counters that are whole, finite and didn't fall; every
    trial tells what any tells; the metrics to be judged exist. Nothing that's missing or NaN is ever read as good."""
    if not evidence.trials:
        return error(RULE, "there is no trial")
    told_by_any = {name for _, measured in evidence.measured for name in measured.counters_after or {}}
    for trial in evidence.trials:
        if trial.measurement is None:
            return error(RULE, f"trial {trial.id} has no measurement: {trial.failure or 'no reason on record'}", trial)
        problem = _records(trial.measurement) or _counters(trial.measurement, told_by_any) or _summaries(trial)
        if problem:
            return error(RULE, f"trial {trial.id}: {problem}", trial)
        for metric in _needed(evidence, trial):
            if metric not in trial.summary:
                answered = f"{trial.measurement.completed} of {trial.measurement.offered} requests were answered"
                return inconclusive(RULE, f"trial {trial.id} has no {metric}: {answered}, too few for it", trial)
    records = sum(len(measured.records) for _, measured in evidence.measured)
    told = f"{records} records, {len(told_by_any)} counters in each trial"
    return passed(RULE, f"nothing is missing from {len(evidence.trials)} trials: {told}", *evidence.trials)


def _needed(evidence: Evidence, trial: TrialEvidence) -> tuple[str, ...]:
    objective = evidence.deployment.objective.metric
    guardrails = (rail.metric for rail in evidence.deployment.guardrails)
    return (objective, *guardrails) if trial.role == "confirm" else (objective,)


def _records(measured: Measurement) -> str:
    if not measured.records or not measured.completed:
        return f"none of {measured.offered} requests was answered"
    if not _real(measured.window_s) or measured.window_s <= 0 or not _real(measured.started_at):
        return f"its window of {measured.window_s} s, begun at {measured.started_at}, is none"
    for record in measured.records:
        for name, value in _moments(record):
            if not _real(value):
                return f"request {record.index} has {name} = {value}"
    for name in ("send_lag_p99_ms", "cpu_share"):
        if not _real(getattr(measured.client, name)):
            return f"the client's {name} is {getattr(measured.client, name)}"
    return ""


def _moments(record: RequestRecord) -> Iterator[tuple[str, float]]:
    yield "scheduled_s", record.scheduled_s
    yield "sent_s", record.sent_s
    yield "end_s", record.end_s
    for name in ("first_chunk_s", "clock_skew_s"):
        value = getattr(record, name)
        if value is not None:
            yield name, value
    for value in record.token_times_s:
        yield "token_times_s", value


def _counters(measured: Measurement, told_by_any: set[str]) -> str:
    before, after = measured.counters_before, measured.counters_after
    if not before or not after:
        return "the server's counters weren't read, or it has none"
    for name in sorted(told_by_any | before.keys() | after.keys()):
        if name not in before or name not in after:
            return f"the counter {name} is missing {'after' if name in before else 'before'} the load"
        for value in (before[name], after[name]):
            if not _real(value) or value < 0:
                return f"the counter {name} is {value}"
        if after[name] < before[name]:
            return f"the counter {name} fell from {before[name]:g} to {after[name]:g}: it was reset under the load"
    return ""


def _summaries(trial: TrialEvidence) -> str:
    summaries: tuple[Mapping[str, float], ...] = (trial.summary, trial.recorded_summary)
    for summary in summaries:
        if not summary:
            return "it has no summary"
        for name, value in summary.items():
            if not _real(value):
                return f"{name} is {value}"
    return ""


def _real(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
