"""Autoscalers, failures and cold starts: in ticks, with every request, and both alike."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tools.capacity.autoscaler import HpaRules, HpaScaler, ScheduledScaler, Static, StepRule
from tools.capacity.day import simulate_day
from tools.capacity.failures import FailureModel
from tools.capacity.fleet import FleetModel
from tools.capacity.mix import Mix
from tools.capacity.operate import Operation, arrivals_at, operate
from tools.capacity.steady import Steady
from tools.service.curve import ServiceCurve
from tools.service.replica import Replica

CURVE = ServiceCurve("gpu", "", 16, 0.01, 2e-5, ((1, 0.01), (16, 0.02)), 300, 60)
MODEL = FleetModel(Replica(CURVE, 2048), "power-of-two")
MIX = Mix.of_curve(CURVE)
STEADY = Steady(CURVE, MIX)
MOST = STEADY.most_rps()


def rules(target: float = 6.0, least: int = 2, most: int = 40, **more: int) -> HpaRules:
    return HpaRules(least, most, target, **more)


def test_an_hpa_leaves_a_tenth_alone_and_follows_more() -> None:
    scaler = HpaScaler(rules())
    assert scaler.desired(0, 10, 65) == 10
    assert scaler.desired(15, 10, 90) == 15
    assert scaler.desired(30, 15, 600) == 30, "at most twice as many in 15 s"


def test_an_hpa_goes_down_late_and_slowly() -> None:
    scaler = HpaScaler(rules(down=StepRule(10, 1, 60), down_window_s=300))
    assert scaler.desired(0, 20, 120) == 20
    current, at = 20, 0
    while current == 20:
        at += 15
        current = scaler.desired(at, current, 10)
    assert at > 300
    assert current == 18
    assert scaler.desired(at + 15, 18, 10) == 18, "a tenth of them each minute"
    assert scaler.desired(at + 75, 18, 10) == 16


def test_an_hpa_stays_between_its_ends() -> None:
    scaler = HpaScaler(rules(least=3, most=12))
    assert scaler.desired(0, 10, 10_000) == 12
    current = 12
    for at in range(400, 4000, 60):
        current = scaler.desired(at, current, 0)
    assert current == 3


def test_a_schedule_goes_ahead_and_never_below_the_hpa_beside_it() -> None:
    plain = ScheduledScaler((2, 9, 4), 3600, 120)
    assert [plain.scheduled(at) for at in (0, 3400, 3481, 5000, 7200, 10_700)] == [2, 2, 9, 9, 4, 4]
    beside = ScheduledScaler((2, 9, 4), 3600, 120, HpaScaler(rules()))
    assert beside.desired(0, 2, 24) == 4


def test_arrivals_follow_the_rate() -> None:
    moments = arrivals_at(lambda at: 5 + at / 10, 1000, 1.0, np.random.default_rng(0))
    assert len(moments) == pytest.approx(55_000, rel=0.02)
    assert (np.diff(moments) >= 0).all()
    assert (moments < 500).sum() == pytest.approx(5 * 500 + 500**2 / 20, rel=0.03)


def test_a_failed_replica_loses_nothing_and_is_replaced() -> None:
    failures = FailureModel(mttf_s=100, repair_s=20)
    rate = 4 * MOST
    found = operate(MODEL, MIX, lambda _: rate, 1.0, Static(10), Operation(400, 10, 5, failures, seed=3))
    assert found.seen.done == found.seen.arrived
    assert found.seen.retried > 0
    expected = 10 * 400 / (100 + 20)
    assert abs(found.failures - expected) < 4 * math.sqrt(expected)
    up = np.mean([count for _, count in found.ready])
    assert up == pytest.approx(10 * failures.availability, rel=0.12)


def test_no_replica_at_all_holds_the_requests_until_one_is_ready() -> None:
    found = operate(MODEL, MIX, lambda _: 1.0, 1.0, Static(1), Operation(100, 0, 40, seed=1))
    assert found.seen.done == found.seen.arrived > 50
    assert found.seen.ttft_s.max() > 30


def test_ticks_and_requests_tell_the_same_day() -> None:
    length_s = 1800.0

    def rate_at(now: float) -> float:
        return MOST * (5 - 3 * math.cos(2 * math.pi * now / length_s))

    def scaler() -> HpaScaler:
        return HpaScaler(rules(target=5.0))

    days = [
        simulate_day(
            "hpa",
            scaler(),
            rate_at,
            lambda rate: math.ceil(rate / MOST),
            STEADY,
            length_s=length_s,
            cold_start_s=60,
            start=4,
            seed=seed,
        )
        for seed in range(4)
    ]
    runs = [operate(MODEL, MIX, rate_at, 1.0, scaler(), Operation(length_s, 4, 60, seed=seed)) for seed in range(2)]
    hours = [run.replica_s / 3600 for run in runs]
    assert np.mean(hours) == pytest.approx(np.mean([day.replica_hours for day in days]), rel=0.1)
    moments = [at for at, *_ in days[0].points]
    by_tick = np.mean([[count for *_, count in day.points] for day in days], axis=0)
    by_request = np.mean([np.interp(moments, *zip(*run.ready, strict=True)) for run in runs], axis=0)
    assert np.abs(by_tick - by_request).mean() < 0.1 * by_request.max()


def test_what_the_autoscaler_cant_start_in_time_is_missed() -> None:
    def rate_at(now: float) -> float:
        return MOST * (3 if now < 3000 else 9)

    def day(cold_start_s: float, scaler: HpaScaler | Static) -> float:
        return simulate_day(
            "x",
            scaler,
            rate_at,
            lambda rate: math.ceil(rate / MOST * 1.1),
            STEADY,
            length_s=6000,
            cold_start_s=cold_start_s,
            start=10,
        ).missed_minutes

    quick, slow = day(15, HpaScaler(rules())), day(600, HpaScaler(rules()))
    assert day(600, Static(10)) == 0
    assert 0 < quick < slow
