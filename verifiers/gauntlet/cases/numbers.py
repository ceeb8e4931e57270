"""Attacks on the numbers (class B): of another clock, another unit, another machine, or beyond what is possible."""

from __future__ import annotations

import math
from dataclasses import replace

from tools.canonical import digest
from tools.measure.measurement import Measurement
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.gauntlet.case import Case
from verifiers.gauntlet.edit import candidates, confirmed, named, with_measurement, with_records, with_trials
from verifiers.gauntlet.honest import Story, tell, usual
from verifiers.gauntlet.load import Speed

__all__ = ["CASES"]


def _five_seconds_ahead() -> Evidence:
    return with_records(
        usual(), candidates, lambda record: replace(record, clock_skew_s=(record.clock_skew_s or 0.0) + 5.0)
    )


def _window_too_short() -> Evidence:
    """The window ends while half of the answers still run: throughput doubles."""
    return with_measurement(usual(), candidates, lambda m: replace(m, window_s=m.window_s / 2))


def _fast_clock() -> Evidence:
    """The harness noted an hour between launch and record; the load says it took seconds and began the day before."""
    return with_measurement(usual(), candidates, lambda m: replace(m, started_at=m.started_at - 86_400))


def _other_machine() -> Evidence:
    other = digest("another machine")
    return with_trials(
        usual(), lambda trial: trial.role == "confirm" and trial.arm == "A", lambda t: replace(t, environment=other)
    )


def _baseline_of_last_month() -> Evidence:
    """The baseline's launches of the last block are from another day's software."""
    other = digest("one machine, last month")
    return with_trials(usual(), named("c6", "c7"), lambda trial: replace(trial, environment=other))


def _seconds_as_milliseconds() -> Evidence:
    """The ledger's summaries of the candidate are in seconds under names that end in _ms."""

    def slip(trial: TrialEvidence) -> TrialEvidence:
        wrong = {name: value / 1000 if name.endswith("_ms") else value for name, value in trial.summary.items()}
        return replace(trial, recorded_summary=wrong)

    return with_trials(usual(), candidates, slip)


def _below_the_floor() -> Evidence:
    """Gaps between tokens that no read of the weights fits into."""
    slow = Speed(itl_s=0.0056, request_cv=0.05)
    return tell(Story(baseline=slow, candidate=slow.faster(0.7, 0.8)))


def _before_the_prompt_was_read() -> Evidence:
    """First tokens sooner than the prompt's arithmetic takes."""
    quick = Speed(ttft_s=0.0055, request_cv=0.05)
    return tell(Story(baseline=quick.faster(1.6), candidate=quick.faster(0.8)))


def _above_the_ceiling() -> Evidence:
    """More prompt tokens a second than the machine has arithmetic for."""
    story = Story(baseline=Speed(ttft_s=0.30), candidate=Speed(ttft_s=0.09, itl_s=0.007)).changed(
        workload={
            "class": "chat",
            "requests": 32,
            "prompt_tokens": {"min": 16, "max": 4000},
            "output_tokens": 8,
            "arrivals": {"kind": "burst"},
            "timeout_s": 20,
        }
    )
    return tell(story)


def _no_number() -> Evidence:
    """A counter is not a number."""
    return with_measurement(
        usual(), confirmed, lambda m: replace(m, counters_after={**(m.counters_after or {}), "preemptions": math.nan})
    )


def _reset_counter() -> Evidence:
    """A counter fell: what was counted before is gone."""
    return with_measurement(
        usual(), confirmed, lambda m: replace(m, counters_before={**(m.counters_before or {}), "preemptions": 7.0})
    )


def _half_a_scrape() -> Evidence:
    """The server answered the second look at its counters with none at all."""
    return with_measurement(usual(), confirmed, lambda m: replace(m, counters_after=None))


def _infinite_stamp() -> Evidence:
    """A stamp is infinite: whatever is compared with it is fine."""

    def spoil(measurement: Measurement) -> Measurement:
        first, *rest = measurement.records
        return replace(measurement, records=(replace(first, end_s=math.inf), *rest))

    return with_measurement(usual(), candidates, spoil)


def _drifting() -> Evidence:
    """The machine slows down from launch to launch, whatever runs on it."""
    steady = Speed(launch_cv=0.004, request_cv=0.05)
    return tell(Story(drift=0.11, baseline=steady, candidate=steady.faster(0.6)))


CASES: tuple[Case, ...] = (
    Case("m01", "B06", "clock.agrees", "the server's clock is five seconds ahead", _five_seconds_ahead),
    Case("m02", "B06", "clock.agrees", "the window ends before the answers do", _window_too_short),
    Case("m03", "B06", "clock.agrees", "the load began before its launch", _fast_clock),
    Case("m04", "B09", "drift.bracket", "the machine slows down all the time", _drifting),
    Case("m05", "B13", "environment.same", "the baseline comes from another machine", _other_machine),
    Case("m06", "B13", "environment.same", "a part of the baseline is last month's", _baseline_of_last_month),
    Case("m07", "B14", "units.consistent", "seconds under a name in milliseconds", _seconds_as_milliseconds),
    Case("m14", "B15", "physics.floor", "first tokens before the prompt can be read", _before_the_prompt_was_read),
    Case("m08", "B15", "physics.floor", "gaps shorter than a read of the weights", _below_the_floor),
    Case("m09", "B15", "physics.ceiling", "more tokens a second than the arithmetic allows", _above_the_ceiling),
    Case("m10", "B16", "data.complete", "a counter that is not a number", _no_number),
    Case("m11", "B16", "data.complete", "a counter that fell", _reset_counter),
    Case("m12", "B16", "data.complete", "no counters after the load", _half_a_scrape),
    Case("m13", "B16", "data.complete", "a stamp at infinity", _infinite_stamp),
)
