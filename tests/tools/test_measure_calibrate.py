"""Calibration against a server whose floor and ceiling are known."""

from __future__ import annotations

import json
import statistics

import pytest

from tests.tools.scripted_server import Script, serve
from tools.errors import UserError
from tools.measure import WorkloadSpec
from tools.measure.calibrate import Calibration, derive_seed, impulse_response

SPEC = WorkloadSpec.model_validate(
    {
        "class": "chat",
        "requests": 12,
        "system_prompt_tokens": 16,
        "prompt_tokens": {"min": 10, "max": 20},
        "output_tokens": 5,
        "arrivals": {"kind": "poisson", "rate_rps": 1000},
    }
)


def test_floor_and_ceiling_are_the_servers() -> None:
    with serve(Script(prefill_s=0.1, step_s=0.02)) as server:
        found = impulse_response(server.endpoint, SPEC, floor_requests=3)
        prompts = [str(exchange.body["messages"]) for exchange in server.loads]
        alone = server.loads[2:5]
    ttft_ms = 1000 * statistics.median(exchange.ttft_s for exchange in alone)
    tpot_ms = 1000 * statistics.median(exchange.decode_s / 4 for exchange in alone)
    assert ttft_ms <= found.floor_ttft_ms < 3 * ttft_ms
    assert found.floor_tpot_ms is not None and tpot_ms / 3 < found.floor_tpot_ms < 3 * tpot_ms
    assert found.floor_e2el_ms > found.floor_ttft_ms
    one_at_a_time = 1000 / found.floor_e2el_ms
    assert found.ceiling_request_throughput > 2 * one_at_a_time  # twelve at once, by a server without a limit
    assert found.ceiling_output_throughput == pytest.approx(5 * found.ceiling_request_throughput)
    assert (found.floor_requests, found.ceiling_requests) == (3, 12)
    assert len(set(prompts)) == len(prompts) == 2 + 3 + 12  # warm-up, floor and ceiling share none


def test_a_server_that_loses_requests_is_not_calibrated() -> None:
    with serve(Script(fault="503")) as server, pytest.raises(UserError, match=r"3 requests were lost.*http_503"):
        impulse_response(server.endpoint, SPEC, floor_requests=3)


def test_a_calibration_goes_through_json_unchanged() -> None:
    found = Calibration("s", 1, 3, 1.5, None, 2.5, 4, 0.1, 0.2, 0.3)
    assert Calibration.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_derived_seeds_repeat_and_differ_by_purpose() -> None:
    assert derive_seed(1, "floor") == derive_seed(1, "floor")
    assert len({derive_seed(seed, purpose) for seed in range(50) for purpose in ("floor", "ceiling")}) == 100
