"""Attacks on running it (D06, D07, D09, D10): no headroom, a slow start, a flip-flop, a step that can't be undone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tools.measure.measurement import Measurement
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.gauntlet.case import Case
from verifiers.gauntlet.cases.outputs import shed, slower
from verifiers.gauntlet.edit import candidates, counting, named, with_data, with_entries, with_measurement, with_trials
from verifiers.gauntlet.honest import usual

__all__ = ["CASES"]

_DAY_S = 86_400.0


def _slow_start() -> Evidence:
    """The candidate records graphs for half a minute before it answers."""
    return with_trials(usual(), candidates, lambda trial: replace(trial, ready_s=trial.ready_s + 31.0))


def _soaked(edit: object) -> Evidence:
    assert callable(edit)
    return with_measurement(usual(), named("soak"), edit)


def _preempting() -> Evidence:
    """The cache is so small that requests are thrown out again and again."""
    return _soaked(lambda measurement: counting(measurement, preemptions=400.0))


def _refusing() -> Evidence:
    return _soaked(shed)


def _restarting() -> Evidence:
    """The server went down under the burst and came back."""

    def restart(measurement: Measurement) -> Measurement:
        after = measurement.identity_after
        assert after is not None
        began = after.process_started_at + 6.0
        return replace(
            measurement, identity_after=replace(after, pid=after.pid + 900, process_started_at=began, started_at=began)
        )

    return _soaked(restart)


def _leaking() -> Evidence:
    grown = {"rss_middle_bytes": 1_200 << 20, "rss_after_bytes": 2_600 << 20}
    return with_trials(usual(), named("soak"), lambda trial: replace(trial, resources={**trial.resources, **grown}))


def _crashing() -> Evidence:
    """Out of memory in the burst."""

    def crash(trial: TrialEvidence) -> TrialEvidence:
        return replace(trial, measurement=None, failure="oom", summary={}, recorded_summary={})

    return with_trials(usual(), named("soak"), crash)


def _never_soaked() -> Evidence:
    return _without("soak")


def _without(trial_id: str) -> Evidence:
    evidence = usual()
    gone = replace(evidence, extra=tuple(trial for trial in evidence.extra if trial.id != trial_id))
    return with_entries(gone, lambda entries: [entry for entry in entries if entry.data.get("id") != trial_id])


def _other_text() -> Evidence:
    """The reverse change leaves a line behind."""
    return with_data(
        usual(), "rollback", lambda entry: {**entry.data, "reverted": entry.data["reverted"] + "# was tuned\n"}
    )


def _never_taken_back() -> Evidence:
    """The reverse change was never tried."""
    gone = _without("rollback")
    return with_entries(gone, lambda entries: [entry for entry in entries if entry.kind != "rollback"])


def _not_undone() -> Evidence:
    """After the rollback the baseline is three times as slow as it was."""

    def slow(measurement: Measurement) -> Measurement:
        return slower(measurement, {record.index: 3.0 for record in measurement.records})

    return with_measurement(usual(), named("rollback"), slow)


def _history(commits: list[Mapping[str, Any]]) -> Evidence:
    return with_data(usual(), "run.started", lambda entry: {**entry.data, "history": commits})


def _flip_flop() -> Evidence:
    """Two days ago a run of ours went from 16 to 2; this one would go from 2 to 16."""
    at = usual().entries[0].time - 2 * _DAY_S
    return _history([{"sha": "c" * 40, "at": at, "run": "chat-20260530", "changes": {"max_num_seqs": [16, 2]}}])


def _overruled() -> Evidence:
    """A run of ours set 16; then a person set it back to 2."""
    began = usual().entries[0].time
    person = {"sha": "d" * 40, "at": began - 60 * _DAY_S, "run": "", "changes": {"max_num_seqs": [16, 2]}}
    ours = {"sha": "c" * 40, "at": began - 61 * _DAY_S, "run": "chat-20260330", "changes": {"max_num_seqs": [2, 16]}}
    return _history([person, ours])


CASES: tuple[Case, ...] = (
    Case("o01", "D07", "start.time", "half a minute more until it is ready", _slow_start),
    Case("o02", "D06", "headroom.soak", "thrown out again and again under a burst", _preempting),
    Case("o03", "D06", "headroom.soak", "a request refused under a burst", _refusing),
    Case("o04", "D06", "headroom.soak", "restarted under a burst", _restarting),
    Case("o05", "D06", "headroom.soak", "memory doubles during the soak", _leaking),
    Case("o06", "D06", "headroom.soak", "out of memory in the burst", _crashing),
    Case("o07", "D06", "headroom.soak", "never soaked", _never_soaked),
    Case("o08", "D10", "rollback.drill", "the reverse change leaves a line behind", _other_text),
    Case("o09", "D10", "rollback.drill", "never taken back", _never_taken_back),
    Case("o10", "D10", "rollback.drill", "taken back, and three times as slow as before", _not_undone),
    Case("o11", "D09", "history.thrash", "back to where it was two days ago", _flip_flop),
    Case("o12", "D09", "history.thrash", "against what a person decided", _overruled),
)
