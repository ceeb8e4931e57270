"""How many trials it takes: plans that are kept, stop early on quiet machines, and say when the budget can't."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.measure.resolve import LEAST_TRIALS, Plan, half_width, plan


def trials(count: int, noise: float, seed: int, level: float = 100.0) -> list[float]:
    return [float(value) for value in level * np.exp(np.random.default_rng(seed).normal(0, noise, count))]


def make(
    first: list[float], second: list[float] | None = None, effect: float = 0.05, budget_s: float | None = None
) -> Plan:
    return plan(first, second or [], effect=effect, seconds_per_trial=60, budget_s=budget_s)


def test_a_quiet_machine_needs_the_least_number_of_trials() -> None:
    found = make(trials(5, 0.005, seed=1))
    assert found.trials_per_side == LEAST_TRIALS and found.further_trials == 5
    assert found.seconds == 300
    assert found.feasible and found.promised_half_width == 0.05
    assert found.expected_half_width < 0.02
    assert found.power > 0.99


def test_a_noisy_one_needs_as_many_as_theory_has() -> None:
    needed = [make(trials(40, 0.10, seed)).needed_trials_per_side for seed in range(20)]
    # 2 (1.96 s / log 1.05)^2 trials of a mean; trimming a fifth costs a seventh more (Yuen 1974).
    theory = 2 * (1.96 * 0.10 / math.log(1.05)) ** 2
    assert theory < float(np.median(needed)) < 1.4 * theory


def test_an_interval_that_just_reaches_the_effect_sees_it_half_the_time() -> None:
    pilot = trials(60, 0.10, seed=2)
    width = make(pilot, budget_s=60 * 60.0).expected_half_width
    assert math.isfinite(width)
    assert make(pilot, effect=width).power == pytest.approx(0.5, abs=0.05)


def test_the_budget_that_cannot_is_told_and_what_it_can() -> None:
    found = make(trials(6, 0.10, seed=3), effect=0.02, budget_s=10 * 60.0)
    assert not found.feasible
    assert found.further_trials == 10 and found.trials_per_side == 8
    assert found.needed_trials_per_side > 100
    assert found.promised_half_width == found.expected_half_width
    assert found.promised_half_width > 0.05
    assert "can't resolve 2.0%" in str(found)


def test_a_finished_campaign_has_nothing_left_to_run_and_says_what_it_got() -> None:
    first, second = trials(8, 0.02, seed=4), trials(8, 0.02, seed=5)
    found = make(first, second)
    assert found.done and found.seconds == 0 and found.feasible
    assert found.expected_half_width == pytest.approx(half_width(first, second))


def test_without_budget_left_the_trials_so_far_stand() -> None:
    found = make(trials(7, 0.2, seed=6), trials(6, 0.2, seed=7), effect=0.01, budget_s=0)
    assert found.done and not found.feasible and found.trials_per_side == 6


def test_a_side_that_nothing_is_left_for_resolves_nothing() -> None:
    found = make(trials(5, 0.1, seed=6), budget_s=60.0)
    assert not found.feasible and found.trials_per_side == 1
    assert "resolve nothing" in str(found) and found.to_json()["promised_half_width"] is None


@pytest.mark.parametrize(("noise", "effect"), [(0.02, 0.015), (0.05, 0.03), (0.08, 0.08)])
def test_a_campaign_keeps_its_promise(noise: float, effect: float) -> None:
    random = np.random.default_rng(8)
    errors = []
    for _ in range(20):
        first = [float(value) for value in np.exp(random.normal(0, noise, 5))]
        second: list[float] = []
        now = plan(first, second, effect=effect, seconds_per_trial=1)
        while not now.done:
            promise = now
            (first if len(first) < len(second) else second).append(float(np.exp(random.normal(0, noise))))
            now = plan(first, second, effect=effect, seconds_per_trial=1)
        errors.append(half_width(first, second) / promise.promised_half_width - 1)
    assert max(errors) <= 0.2
    assert float(np.median(errors)) > -0.2


def test_one_disturbed_trial_costs_little() -> None:
    calm = trials(10, 0.02, seed=9)
    disturbed = [*calm[:-1], calm[-1] * 1.4]
    assert make(disturbed).trials_per_side <= 2 * make(calm).trials_per_side
    other = trials(10, 0.02, seed=10)
    plain = float(np.std(np.log(disturbed), ddof=1)) / float(np.std(np.log(calm), ddof=1))
    assert half_width(disturbed, other) / half_width(calm, other) < plain / 2


def test_the_half_width_covers_the_ratio_of_equal_sides() -> None:
    random = np.random.default_rng(11)
    hits = 0
    for _ in range(400):
        sides = np.sort(random.normal(0, 0.1, (2, 10)), axis=1)
        difference = abs(sides[0, 2:8].mean() - sides[1, 2:8].mean())
        hits += difference <= math.log1p(half_width(*(list(map(float, np.exp(side))) for side in sides)))
    assert 0.92 <= hits / 400 <= 0.99


positive = st.floats(0.1, 1000)


@given(st.lists(positive, min_size=3, max_size=12), st.floats(0.005, 0.5), st.floats(0, 3600))
def test_plans_are_sane(first: list[float], effect: float, budget_s: float) -> None:
    unbounded, bounded = make(first, effect=effect), make(first, effect=effect, budget_s=budget_s)
    assert bounded.trials_per_side <= unbounded.trials_per_side == unbounded.needed_trials_per_side
    assert bounded.seconds <= budget_s
    assert 0 <= bounded.power <= 1
    assert not bounded.feasible or bounded.promised_half_width == effect
    assert make(first, effect=2 * effect).needed_trials_per_side <= unbounded.needed_trials_per_side
    json.dumps(unbounded.to_json(), allow_nan=False)


@given(st.lists(positive, min_size=3, max_size=12), st.floats(0.01, 100))
def test_plans_do_not_depend_on_the_unit(first: list[float], unit: float) -> None:
    scaled = make([value * unit for value in first])
    assert scaled.expected_half_width == pytest.approx(make(first).expected_half_width, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    ("first", "effect", "message"),
    [([1.0, 2.0], 0.05, "at least 3"), ([1.0, 2.0, 0.0], 0.05, "positive"), ([1.0, 2.0, 3.0], 0.0, "effect")],
)
def test_what_cannot_be_planned_from_is_refused(first: list[float], effect: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(first, effect=effect)


def test_a_half_width_needs_two_trials_of_each_side() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        half_width([1.0], [1.0, 2.0])
