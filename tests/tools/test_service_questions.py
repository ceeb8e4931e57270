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
) -> dict[str, Doubt]:
    known = play_phases((2.0, 4.0), noise_s=0.0005) if phases is None else phases
    found = calibration_doubts(fit, known, points, slo or Slo(), None, planned=PLAN, driven=driven)
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
