"""Whole calibrations over HTTP, of a server whose rules are known."""

from __future__ import annotations

import json

import pytest

from tests.tools.queueing_server import SMALL, serve_replica
from tests.tools.scripted_server import Script, serve
from tools.errors import UserError
from tools.measure import Slo, WorkloadSpec
from tools.service import ServiceCalibration
from tools.service.campaign import calibrate_service
from tools.service.plan import LEAST_REQUESTS, CampaignPlan

SPEC = WorkloadSpec.model_validate(
    {
        "class": "chat",
        "requests": 24,
        "prompt_tokens": {"min": 16, "max": 80},
        "output_tokens": {"min": 4, "max": 10},
        "arrivals": {"kind": "poisson", "rate_rps": 5},
        "timeout_s": 20,
    }
)


class Phases(list[str]):
    """The phases that were announced."""

    def phase(self, name: str, detail: str, seconds_left: float | None) -> None:
        self.append(name)

    def requests(self, done: int, total: int, seconds_left: float | None) -> None:
        pass


def test_a_server_is_calibrated_over_http() -> None:
    slo, phases, resets = Slo.model_validate({"ttft_ms": {"p95": 5000}}), Phases(), list[int]()
    with serve_replica(SMALL) as server:

        def reset() -> None:
            resets.append(len(server.requests))
            server.date_ahead_s = 300.0 if len(resets) == 6 else 0.0  # it goes wrong for the load that verifies

        found = calibrate_service(
            server.endpoint,
            SPEC,
            slo,
            target="queueing",
            requests=80,
            budget_s=60,
            reset=reset,
            progress=phases,
            verify_loads=1,
        )
        prompts = [str(body["messages"]) for body in server.requests]
    assert len(set(prompts)) == len(prompts)  # no load finds another's prompts in a cache
    assert len(prompts) >= found.requests_sent == sum(p.requests for p in found.points) + 8 + 24
    assert phases[:3] == ["warm up", "probe", "burst"] and phases[-1].startswith("verify")
    assert len(resets) == 6  # probe, burst, three rates and the one that verifies
    (skewed,) = [doubt.sentence for doubt in found.doubts if doubt.name == "clock_skew"]
    assert skewed.startswith("at verify ")
    assert found.curve.seats == 3 and found.fit.seats_are_a_limit
    assert found.curve.step_s(3) > found.curve.step_s(1) > 0 and found.curve.prefill_s_per_token > 0
    assert found.fit.tokens.per_word == pytest.approx(1.0, abs=0.05)
    rates = [prediction.rate_rps for prediction in found.predictions]
    assert rates == sorted(rates) and rates[0] < found.knee_rps < found.capacity_rps < rates[-1]
    assert [point.held_out for point in found.points].count(True) == 2 and len(found.points) == 4
    assert found.best_rate is not None and found.best_rate.verified and found.best_rate.rate_rps in rates
    again = json.loads(json.dumps(found.to_json()))
    assert ServiceCalibration.from_json(again) == found
    assert {"curve", "points", "predictions", "knee_rps", "capacity_rps", "best_rate", "slo", "doubts"} <= again.keys()


def test_a_server_that_loses_requests_is_not_calibrated() -> None:
    with (
        serve(Script(fault="503")) as server,
        pytest.raises(UserError, match=r"calibrate, probe: .*were lost.*http_503"),
    ):
        calibrate_service(server.endpoint, SPEC, Slo(), target="x", requests=60, budget_s=60)


def test_a_plan_spends_what_it_was_given_and_no_more() -> None:
    for requests in (LEAST_REQUESTS, 100, 333):
        plan = CampaignPlan.of(requests)
        assert 0.9 * requests <= plan.probe + plan.burst + 3 * plan.rate <= requests
    with pytest.raises(UserError, match="at least 48 requests"):
        CampaignPlan.of(20)
    plan = CampaignPlan.of(200)
    assert plan.within(1000, lambda requests: 1.75 * requests) == plan
    short = plan.within(50, lambda requests: 1.75 * requests)
    assert 40 < short.rate * 1.75 / 0.85 <= 50 and (short.probe, short.burst) == (plan.probe, plan.burst)
    with pytest.raises(UserError, match="raise --budget"):
        plan.within(5, lambda requests: 1.75 * requests)
