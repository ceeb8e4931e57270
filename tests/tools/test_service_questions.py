"""What a calibration says against itself, and that it is silent where there's nothing to say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tools.played_phases import MIX, TRUTH, WORDS_AND_TEMPLATE, play_phase, play_phases
from tools.measure import Slo
from tools.measure.doubts import Doubt
from tools.service import Fit, Phase, Point
from tools.service.load_spec import at_rate
from tools.service.plan import CampaignPlan
from tools.service.questions import calibration_doubts

PERFECT = Fit(TRUTH, WORDS_AND_TEMPLATE, {}, (), seats_are_a_limit=True)
PLAN = CampaignPlan.of(200)


def asked(
    fit: Fit = PERFECT,
    phases: list[Phase] | None = None,
    points: tuple[Point, ...] = (),
    slo: Slo | None = None,
    driven: CampaignPlan = PLAN,
    verifying: tuple[Phase, ...] = (),
) -> dict[str, Doubt]:
    known = play_phases((2.0, 4.0), noise_s=0.0005) if phases is None else phases
    found = calibration_doubts(fit, known, points, slo or Slo(), None, verifying=verifying, planned=PLAN, driven=driven)
    return {doubt.name: doubt for doubt in found}


def test_an_honest_calibration_raises_none() -> None:
    point = Point(4.0, 40, 1, {"p95_ttft_ms": 200.0}, {"p95_ttft_ms": 210.0}, held_out=True)
    assert asked(points=(point,), slo=Slo.model_validate({"ttft_ms": {"p95": 500}})) == {}


def test_each_doubt_has_its_reason() -> None:
    assert "may hold more than 12" in asked(replace(PERFECT, seats_are_a_limit=False))["seats"].sentence
    far = Point(4.0, 40, 1, {"p95_ttft_ms": 200.0}, {"p95_ttft_ms": 310.0}, held_out=True)
    assert "+55% off" in asked(points=(far,))["misfit"].sentence
    short = replace(PERFECT, tokens=replace(WORDS_AND_TEMPLATE, output_share=0.5))
    assert "50% of the tokens" in asked(short)["short_answers"].sentence
    flat = replace(PERFECT, replica=replace(TRUTH, curve=replace(TRUTH.curve, prefill_s_per_token=0.0)))
    assert "flat_prefill" in asked(flat)
    assert "allowed 20 of" in asked(driven=replace(PLAN, rate=20))["short_of_time"].sentence
    stutter = Slo.model_validate({"stutter": {"gap_ms": 100, "max_share": 0.1}})
    assert "stutter_share isn't predicted" in asked(points=(far,), slo=stutter)["unpredicted"].sentence


def test_what_nobody_judged_is_not_said_to_be_judged() -> None:
    point = Point(4.0, 40, 1, {"p95_ttft_ms": 200.0}, {"p95_ttft_ms": 210.0}, held_out=True)
    stutter = Slo.model_validate({"stutter": {"gap_ms": 100, "max_share": 0.1}})
    load = play_phase("verify 4 per second", at_rate(MIX, 4.0, 40), 9, rate_rps=4.0, noise_s=0.0005)
    assert "no real load judged it" in asked(points=(point,), slo=stutter)["unpredicted"].sentence
    judged = asked(points=(point,), slo=stutter, verifying=(load,))["unpredicted"].sentence
    assert "judged by the real loads" in judged and "no real load" not in judged


def mistaken(phase: Phase, fault: str) -> Phase:
    """`phase` as it would have come back with one fault."""
    first, *others = phase.records
    match fault:
        case "client_limited":
            return replace(phase, load=replace(phase.load, client=replace(phase.load.client, cpu_share=0.99)))
        case "token_mismatch":
            records = [replace(first, outcome="failed", error="token_count_mismatch: 3 told, 4 seen"), *others]
        case "impossible_speed":
            records = [replace(first, sent_s=first.token_times_s[0] + 0.001), *others]
        case "buffered":
            records = [replace(r, token_times_s=(r.end_s,) * len(r.token_times_s)) for r in phase.records]
        case _:
            records = [replace(r, clock_skew_s=90.0) for r in phase.records]
    return replace(phase, load=replace(phase.load, records=tuple(records)))


@pytest.mark.parametrize("place", [0, 1, 2, 4])
@pytest.mark.parametrize("fault", ["client_limited", "token_mismatch", "impossible_speed", "buffered", "clock_skew"])
def test_every_load_is_questioned_the_burst_and_those_that_verify_too(fault: str, place: int) -> None:
    verifying = play_phase("verify 4 per second", at_rate(MIX, 4.0, 40), 9, rate_rps=4.0, noise_s=0.0005)
    phases = [*play_phases((2.0, 4.0), noise_s=0.0005), verifying]
    phases[place] = mistaken(phases[place], fault)
    found = asked(phases=phases[:4], verifying=(phases[4],))
    assert found[fault].sentence.startswith(f"at {phases[place].name}: ")
    assert set(found) <= {fault, "unanswered"}


def test_a_server_that_shares_and_doesn_t_say_so_is_doubted() -> None:
    shared = at_rate(MIX, 3.0, 30).model_copy(update={"system_prompt_tokens": 50})
    phases = [*play_phases(()), play_phase("3 per second", shared, 4, rate_rps=3.0)]
    untold = [
        replace(phase, load=replace(phase.load, records=tuple(replace(r, cached_tokens=None) for r in phase.records)))
        for phase in phases
    ]
    assert "cache_untold" in asked(phases=untold) and "cache_untold" not in asked(phases=phases)


@pytest.mark.parametrize("cpu_share", [0.4, 0.99])
def test_a_client_that_was_the_limit_makes_the_numbers_useless(cpu_share: float) -> None:
    phases = play_phases((2.0, 4.0))
    late = [
        replace(phase, load=replace(phase.load, client=replace(phase.load.client, cpu_share=cpu_share)))
        for phase in phases
    ]
    found = asked(phases=late)
    assert ("client_limited" in found) == (cpu_share > 0.9)
    assert all(doubt.invalid for name, doubt in found.items() if name == "client_limited")
    lost = replace(phases[2].records[0], outcome="timed_out", error="timed_out: no answer")
    given_up = replace(phases[2], load=replace(phases[2].load, records=(lost, *phases[2].records[1:])))
    assert "1 of 96 requests were lost" in asked(phases=[*phases[:2], given_up])["unanswered"].sentence
