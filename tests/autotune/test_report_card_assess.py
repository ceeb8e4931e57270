"""Assessments: cases with a planted fault, and who finds it."""

from __future__ import annotations

import pytest

from agents.assess_expert import AssessExpert
from agents.assess_llm import AssessLlm
from agents.assess_random import AssessRandom
from agents.assessment import ALERT_REASONS, BENCHMARK_REASONS, Assessment, reasons_for
from agents.llm import LlmSettings
from autotune.report_card.alert_cases import ALERT_CASES, alert_case
from autotune.report_card.benchmark_cases import BENCHMARK_CASES, benchmark_case
from tests.agents.scripted_openai import Reply, ScriptedOpenAI, reply


def test_the_cases_cover_every_reason_and_more_than_one_sound_one() -> None:
    benchmarks = [benchmark_case(name, 1)[1] for name in BENCHMARK_CASES]
    alerts = [alert_case(name, 1)[1] for name in ALERT_CASES]
    assert set(benchmarks) == set(BENCHMARK_REASONS) and set(alerts) == set(ALERT_REASONS)
    assert min(benchmarks.count("sound"), alerts.count("sound")) >= 3


@pytest.mark.parametrize("seed", [3, 4])
def test_arithmetic_finds_every_fault_and_calls_nothing_sound_a_fault(seed: int) -> None:
    expert = AssessExpert()
    for name in BENCHMARK_CASES:
        view, right = benchmark_case(name, seed)
        assert expert.assess(view).assessment.reason == right, name
    for name in ALERT_CASES:
        alert, right = alert_case(name, seed)
        assert expert.assess(alert).assessment.reason == right, name


def test_guessing_is_worth_little_and_repeats_itself() -> None:
    cases = [alert_case(name, seed) for name in ALERT_CASES for seed in range(10)]
    answers = [AssessRandom(5).assess(view).assessment.reason for view, _ in cases]
    assert answers == [AssessRandom(5).assess(view).assessment.reason for view, _ in cases]
    right = sum(answer == truth for answer, (_, truth) in zip(answers, cases, strict=True))
    assert 0.15 < right / len(cases) < 0.55  # one of three


def test_an_assessment_cannot_contradict_itself() -> None:
    with pytest.raises(ValueError, match="valid"):
        Assessment(True, "warm_cache", "it is")
    assert Assessment.of("sound", "") == Assessment(True, "sound", "")


def test_a_model_is_asked_once_more_when_its_answer_cannot_be_used() -> None:
    view, _ = alert_case("m01", 1)
    script = (reply({"reason": "looks fine", "why": ""}), reply({"reason": "cannot_fire", "why": "0.5 > 0.1"}))
    with ScriptedOpenAI(*script) as server:
        given = AssessLlm(LlmSettings(model="scripted", base_url=server.base_url)).assess(view)
        asked = server.requests
    assert given.assessment == Assessment.of("cannot_fire", "0.5 > 0.1")
    assert given.usage.calls == 2 and not given.failure
    said = asked[0].body["messages"]
    assert all(reason in said[0]["content"] for reason in reasons_for(view)) and view.metric in said[1]["content"]
    assert "looks fine" in asked[1].body["messages"][-1]["content"]


def test_an_endpoint_that_is_down_gives_no_answer_rather_than_a_wrong_one() -> None:
    with ScriptedOpenAI(then=Reply(401)) as server:
        given = AssessLlm(LlmSettings(model="scripted", base_url=server.base_url)).assess(alert_case("m02", 1)[0])
    assert given.assessment.reason == "none" and given.failure
