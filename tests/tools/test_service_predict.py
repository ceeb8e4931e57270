"""Predictions against loads of a known replica; the knee, the capacity, and the search for the best rate."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.tools.played_phases import MIX, TRUTH, WORDS_AND_TEMPLATE, play_phase, play_phases
from tools.measure import Slo, WorkloadSpec
from tools.service import BestRate, Fit, Point, Prediction, Predictor, Replica, best_rate, fit_replica
from tools.service.best_rate import CLIFF_AHEAD
from tools.service.load_spec import at_rate
from tools.service.predict import KNEE_FACTOR, largest
from tools.service.token_scale import TokenScale

PERFECT = Fit(TRUTH, WORDS_AND_TEMPLATE, {}, (), seats_are_a_limit=True)


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return Predictor(PERFECT, MIX)


def test_held_out_loads_are_foretold() -> None:
    """The acceptance row's question, on a server that is simulated: three rates that the fit hasn't seen."""
    fit = fit_replica("noisy", "", play_phases(noise_s=0.0015))
    foretold = Predictor(fit, MIX)
    for seed, rate_rps in enumerate((2.0, 4.0, 6.0)):
        phase = play_phase("held out", at_rate(MIX, rate_rps, 100), 90 + seed, rate_rps=rate_rps, noise_s=0.0015)
        seen, said = phase.summary(), foretold.load(phase.workload.spec, phase.workload.seed)
        for metric in ("p50_ttft_ms", "p95_ttft_ms", "p50_itl_ms", "p95_itl_ms", "p95_e2el_ms", "p95_tpot_ms"):
            assert said[metric] == pytest.approx(seen[metric], rel=0.15), (rate_rps, metric)


CONVERSATIONS = WorkloadSpec.model_validate(
    {
        "class": "chat-plus",
        "requests": 120,
        "system_prompt_tokens": 60,
        "prompt_tokens": {"min": 20, "max": 120},
        "output_tokens": {"min": 8, "max": 40},
        "turns": {"min": 1, "max": 4},
        "turn_gap_s": {"min_s": 0.2, "max_s": 2.0},
        "arrivals": {"kind": "gamma", "rate_rps": 2, "cv": 1.5},
    }
)


def test_bursty_conversations_behind_a_cached_prefix_are_foretold_too() -> None:
    tokens = TokenScale(per_word=1.2, per_request=10.0, hit_share=0.9, output_share=1.0)
    phases = play_phases((0.8, 1.4, 2.0), mix=CONVERSATIONS, tokens=tokens, noise_s=0.001)
    fit = fit_replica("conversations", "", phases)
    assert fit.tokens.hit_share == pytest.approx(0.9, abs=0.05) and fit.tokens.per_word == pytest.approx(1.2, abs=0.02)
    foretold = Predictor(fit, CONVERSATIONS)
    for seed, rate_rps in enumerate((1.0, 1.8)):
        spec = at_rate(CONVERSATIONS, rate_rps)
        phase = play_phase("held out", spec, 70 + seed, rate_rps=rate_rps, noise_s=0.001, tokens=tokens)
        seen, said = phase.summary(), foretold.load(spec, phase.workload.seed)
        for metric in ("p50_ttft_ms", "p95_ttft_ms", "p95_itl_ms", "p95_e2el_ms"):
            assert said[metric] == pytest.approx(seen[metric], rel=0.15), (rate_rps, metric)


def test_more_load_is_never_faster_and_the_knee_lies_below_the_capacity(predictor: Predictor) -> None:
    sweep = predictor.sweep()
    tails = [prediction.metrics["p95_ttft_ms"] for prediction in sweep]
    assert all(later > 0.98 * earlier for earlier, later in pairwise(tails))
    assert tails[-1] > 5 * tails[0]
    knee = predictor.knee_rps()
    alone = predictor.at(0.02 * predictor.capacity_rps).metrics["p95_ttft_ms"]
    assert 0.2 * predictor.capacity_rps < knee < predictor.capacity_rps
    assert predictor.at(knee).metrics["p95_ttft_ms"] <= KNEE_FACTOR * alone
    assert predictor.at(1.05 * knee).metrics["p95_ttft_ms"] > KNEE_FACTOR * alone
    assert all(p.low["p95_ttft_ms"] <= p.metrics["p95_ttft_ms"] <= p.high["p95_ttft_ms"] for p in sweep)


def test_the_capacity_is_what_full_seats_yield(predictor: Predictor) -> None:
    curve, mean_prompt, mean_output = TRUTH.curve, 116 + 12, 30
    # A seat for each of 12: its prompt is read in somebody's step, its tokens come one a step.
    decode_s = mean_output * curve.step_s(12) / 12 + mean_prompt * curve.prefill_s_per_token
    assert predictor.capacity_rps == pytest.approx(1 / decode_s, rel=0.1)


def test_no_percentile_overtakes_the_next() -> None:
    crooked = replace(PERFECT, corrections={"p90_ttft_ms": 3.0, "p95_ttft_ms": 0.5})
    found = Predictor(crooked, MIX).at(3.0).metrics
    assert found["p50_ttft_ms"] < found["p90_ttft_ms"] == found["p95_ttft_ms"] <= found["p99_ttft_ms"]


def test_a_prediction_goes_through_flat_json_unchanged(predictor: Predictor) -> None:
    one = predictor.at(3.0)
    flat = json.loads(json.dumps(one.to_json()))
    assert {"rate_rps", "p95_ttft_ms", "low_p95_ttft_ms", "high_p95_ttft_ms"} <= flat.keys()
    assert Prediction.from_json(flat) == one


def test_the_largest_value_is_one_that_holds() -> None:
    assert largest(lambda x: x <= 3.3, 1, 10) == pytest.approx(3.3, rel=0.01)
    assert largest(lambda x: x <= 3.3, 4, 10) is None
    assert largest(lambda x: x <= 33, 4, 10) == 10


PROMISE = Slo.model_validate({"ttft_ms": {"p95": 350}})


def test_a_predicted_best_rate_keeps_its_distance_from_the_cliff(predictor: Predictor) -> None:
    found, taken = best_rate(predictor, PROMISE)
    assert taken == () and not found.verified and found.rate_rps is not None
    assert predictor.at(found.rate_rps).metrics["p95_ttft_ms"] <= 350
    assert found.rate_rps * (1 + CLIFF_AHEAD) <= predictor.capacity_rps
    loose, _ = best_rate(predictor, Slo.model_validate({"ttft_ms": {"p95": 1e6}}))
    assert loose.rate_rps == pytest.approx(predictor.capacity_rps / (1 + CLIFF_AHEAD), rel=0.01)
    steep, _ = best_rate(predictor, Slo.model_validate({"ttft_ms": {"p95": 2000}}))
    assert steep.rate_rps is not None  # the bound is met beyond it, but there a little more would break it by far
    assert predictor.at(steep.rate_rps).metrics["p95_ttft_ms"] < 0.9 * 2000


def test_a_promise_below_the_floor_is_said_to_be_unkeepable(predictor: Predictor) -> None:
    calls: list[float] = []

    def measure(rate_rps: float) -> Point | None:
        calls.append(rate_rps)
        return None

    found, _ = best_rate(predictor, Slo.model_validate({"ttft_ms": {"p95": 30}}), (), measure)
    assert found.rate_rps is None and "no rate keeps the promise: p95_ttft_ms" in found.reason and not calls


class Server:
    """A replica that is really there (played), with costs that the predictor doesn't know."""

    def __init__(self, predictor: Predictor, truth: Replica) -> None:
        self.predictor, self.truth, self.rates = predictor, truth, list[float]()

    def __call__(self, rate_rps: float) -> Point:
        self.rates.append(rate_rps)
        spec = at_rate(MIX, rate_rps, 400)
        phase = play_phase("verify", spec, 1000 + len(self.rates), rate_rps=rate_rps, truth=self.truth)
        foretold = self.predictor.load(spec, phase.workload.seed)
        return Point(rate_rps, 400, phase.workload.seed, phase.summary(PROMISE), foretold, held_out=True)


def slower(factor: float) -> Replica:
    curve = TRUTH.curve
    steps = tuple((count, factor * step_s) for count, step_s in curve.steps)
    costs = {"overhead_s": factor * curve.overhead_s, "prefill_s_per_token": factor * curve.prefill_s_per_token}
    return replace(TRUTH, curve=replace(curve, steps=steps, **costs))


@pytest.mark.parametrize("factor", [0.85, 1.0, 1.25])
def test_real_loads_correct_a_replica_that_is_wrong(predictor: Predictor, factor: float) -> None:
    server = Server(predictor, slower(factor))
    found, taken = best_rate(predictor, PROMISE, (), server, max_loads=4)
    assert found.verified and found.rate_rps is not None and len(taken) == len(server.rates) <= 4
    truth = Predictor(replace(PERFECT, replica=server.truth), MIX)
    best, _ = best_rate(truth, PROMISE)
    assert best.rate_rps is not None
    assert 0.8 * best.rate_rps < found.rate_rps < 1.15 * best.rate_rps
    kept = [point for point in taken if point.rate_rps == found.rate_rps]
    assert kept and kept[0].summary["p95_ttft_ms"] <= 350 * 1.1


def test_a_server_that_misses_everywhere_is_told_so(predictor: Predictor) -> None:
    found, taken = best_rate(predictor, PROMISE, (), Server(predictor, slower(6.0)), max_loads=3)
    assert found.rate_rps is None and len(taken) == 3 and "every rate that was tried missed" in found.reason


def test_without_time_the_answer_is_a_prediction(predictor: Predictor) -> None:
    found, taken = best_rate(predictor, PROMISE, (), lambda rate_rps: None)
    assert taken == () and found.rate_rps is not None and "no load has verified it" in found.reason
    assert BestRate.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_a_promise_that_no_prediction_covers_is_judged_by_loads(predictor: Predictor) -> None:
    slo = Slo.model_validate({"ttft_ms": {"p95": 350}, "stutter": {"gap_ms": 1e4, "max_share": 0.5}})
    found, _ = best_rate(predictor, slo)
    alone, _ = best_rate(predictor, PROMISE)
    assert found.rate_rps == alone.rate_rps
    assert "nothing is foretold of stutter_share" in found.reason and "foretold" not in alone.reason


def test_what_can_t_be_predicted_is_offered_only_after_a_real_load(predictor: Predictor) -> None:
    slo = Slo.model_validate({"stutter": {"gap_ms": 1e4, "max_share": 0.5}})
    for measure in (None, lambda rate_rps: None):  # nobody was to verify it; there was no time to
        found, taken = best_rate(predictor, slo, (), measure)
        assert (found.rate_rps, found.verified, taken) == (None, False, ())
        assert "no rate can be predicted" in found.reason and "stutter_share" in found.reason

    def kept(rate_rps: float) -> Point:
        return Point(rate_rps, 100, 1, {"stutter_share": 0.1}, {}, held_out=True)

    real, taken = best_rate(predictor, slo, (), kept)
    assert real.verified and real.rate_rps == taken[0].rate_rps and "inf" not in real.reason
