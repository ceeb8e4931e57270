"""Honest controls: runs that may not be refused for a wrong reason. What isn't better may be refused for that alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tools.measure.measurement import Measurement
from verifiers.evidence import Attempt
from verifiers.gauntlet.case import Control
from verifiers.gauntlet.edit import counting, with_entries
from verifiers.gauntlet.honest import tell
from verifiers.gauntlet.load import Speed
from verifiers.gauntlet.story import BEGAN, DEPLOYMENT, Story

__all__ = ["CONTROLS", "NO_GAIN"]

NO_GAIN = frozenset({"improvement.primary"})
"Who is to refuse what isn't better."
UNSURE = frozenset({"guardrails.kept", "drift.bracket", "overfit.gain_kept", "tails.kept", "slices.kept"})
"Who may say that noise hides a loss, where there is enough of it."

_STEADY = Speed(launch_cv=0.006, request_cv=0.06)
_STEADIEST = Speed(launch_cv=0.002, request_cv=0.02)


def _gain(ttft: float, speed: Speed = _STEADY) -> Story:
    return Story(baseline=speed, candidate=speed.faster(ttft, 0.99))


def _null(launch_cv: float, request_cv: float, noise: str = "") -> Story:
    speed = Speed(launch_cv=launch_cv, request_cv=request_cv)
    return Story(baseline=speed, candidate=speed, noise=noise)


def _workload(**changes: Any) -> Mapping[str, Any]:
    return {**DEPLOYMENT["workload"], **changes}


def _slow() -> Story:
    slow = Speed(ttft_s=2.4, itl_s=0.35, launch_cv=0.01, request_cv=0.08)
    return Story(baseline=slow, candidate=slow.faster(0.8)).changed(slo={"ttft_ms": {"p95": 6000}})


def _burst() -> Story:
    busy = Speed(ttft_s=0.7, itl_s=0.04)
    story = Story(baseline=busy, candidate=busy.faster(0.7, 0.95))
    return story.changed(workload=_workload(arrivals={"kind": "burst"}))


def _long_prompts() -> Story:
    arrivals = {"kind": "poisson", "rate_rps": 2}
    slow = Speed(ttft_s=0.5)
    story = Story(baseline=slow, candidate=slow.faster(0.7))
    return story.changed(workload=_workload(prompt_tokens={"min": 400, "max": 1500}, arrivals=arrivals))


def _one_token() -> Story:
    return _gain(0.7).changed(workload=_workload(output_tokens=1), slo={"ttft_ms": {"p95": 1000}}, guardrails=[])


def _alike_timeouts() -> Story:
    """In both arms the same few requests are given up."""
    speed = replace(_STEADY, lost_share=0.04)
    return Story(baseline=speed, candidate=speed.faster(0.7)).changed(
        objective={"metric": "p50_ttft_ms", "min_effect": 0.05},
        slo={"ttft_ms": {"p50": 1000}},
        guardrails=[{"metric": "p50_tpot_ms", "max_regression": 0.1}],
    )


def _declared_loss() -> Story:
    """Weights in eight bits, and the owner has said how much may be lost."""
    return replace(
        Story(
            patch={"dtype": "int8"},
            unmanaged=frozenset({"max_queue_len"}),
            candidate_jitter=0.06,
        ).changed(quality={"max_kl": 0.05, "max_perplexity_increase": 0.05, "max_task_drop": 0.05})
    )


def _many_knobs() -> Story:
    patch = {"max_num_seqs": 16, "max_num_batched_tokens": 4096, "kv_cache_tokens": 65536, "num_threads": 4}
    return Story(patch=patch)


def _two_a_chunk() -> Story:
    """Both arms send two tokens in each chunk."""

    def paired(role: str, arm: str, measurement: Measurement) -> Measurement:
        records = []
        for record in measurement.records:
            count = len(record.token_ids)
            whole = [2] * (count // 2) + [1] * (count % 2)
            records.append(replace(record, token_times_s=record.token_times_s[: len(whole)], token_counts=tuple(whole)))
        ends = [record.token_times_s[-1] + 0.0008 for record in records]
        ended = tuple(replace(record, end_s=end_s) for record, end_s in zip(records, ends, strict=True))
        return counting(replace(measurement, records=ended, window_s=max(ends)))

    return Story(truth=paired)


def _no_date() -> Story:
    """A server that sends no Date header."""

    def undated(role: str, arm: str, measurement: Measurement) -> Measurement:
        return replace(measurement, records=tuple(replace(record, clock_skew_s=None) for record in measurement.records))

    return Story(truth=undated)


def _second_attempt() -> Story:
    return Story(attempts=(Attempt("chat-20260531-220000", BEGAN - 40_000.0, "INCONCLUSIVE"),))


def _cut_short() -> Control:
    """The harness crashed in mid-launch and was resumed: one launch was begun twice."""

    def build() -> Any:
        evidence = tell(Story())
        return with_entries(
            evidence,
            lambda entries: [
                again
                for one in entries
                for again in (
                    (one, replace(one, hash="")) if one.kind == "trial.started" and one.data["id"] == "c3" else (one,)
                )
            ],
        )

    return Control("h28", "a launch that a crash of the harness cut short", build)


def _told(control_id: str, what: str, story: Story, *, must: frozenset[str] = frozenset()) -> Control:
    may = UNSURE if must else frozenset()
    return Control(control_id, what, lambda: tell(story), may_refuse=may, must_refuse=must)


CONTROLS: tuple[Control, ...] = (
    _told("h01", "a gain of 8 %", _gain(0.92, _STEADIEST)),
    _told("h02", "a gain of 10 %", _gain(0.90)),
    _told("h03", "a gain of 20 %", _gain(0.80)),
    _told("h04", "a gain of 50 %", _gain(0.50)),
    _told("h05", "ten times as fast", _gain(0.10)),
    _told("h06", "a gain of 30 % in usual noise", Story()),
    _told("h07", "the same, another draw", Story(noise="second")),
    _told("h08", "the same, a third draw", Story(noise="third")),
    _told("h09", "no change at all", _null(0.006, 0.06), must=NO_GAIN),
    _told("h10", "no change in usual noise", _null(0.02, 0.15), must=NO_GAIN),
    _told("h11", "no change in much noise", _null(0.08, 0.3), must=NO_GAIN),
    _told("h12", "no change in wild noise", _null(0.25, 0.5), must=NO_GAIN),
    _told("h13", "slower by a fifth", _gain(1.2), must=NO_GAIN),
    _told(
        "h14",
        "a gain of 2 %, where 5 % are asked for",
        _gain(0.98, Speed(launch_cv=0.002, request_cv=0.02)),
        must=NO_GAIN,
    ),
    _told("h15", "near-ties that fall the other way", Story(flips=0.15, jitter=0.03)),
    _told("h16", "slow and correct", _slow()),
    _told("h17", "a burst", _burst()),
    _told(
        "h18",
        "bursty arrivals",
        Story().changed(workload=_workload(arrivals={"kind": "gamma", "rate_rps": 8, "cv": 2.5})),
    ),
    _told("h19", "nothing that prompts share", Story().changed(workload=_workload(system_prompt_tokens=0))),
    _told("h20", "answers of one token", _one_token()),
    _told("h21", "long prompts", _long_prompts()),
    _told("h22", "as many given up in both arms", _alike_timeouts()),
    _told("h23", "a loss that its owner declared", _declared_loss()),
    _told("h24", "four knobs at once", _many_knobs()),
    _told("h25", "two tokens a chunk in both arms", _two_a_chunk()),
    _told("h26", "a server without a Date header", _no_date()),
    _told("h27", "the second attempt of a day, paid for", _second_attempt()),
    _cut_short(),
    _told("h29", "a trial of another config crashed", Story(crash_log="RuntimeError: block size 32 isn't supported")),
    _told("h30", "prose with the owner's own figures", Story(hypothesis="The promise is a p95 TTFT of 1000 ms.")),
    _told("h31", "a config that stands in a manifest too", Story().standing_twice()),
)
