"""What is fitted to the records of a replica of known costs must be that replica."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.played_phases import MIX, TRUTH, play_phase, play_phases
from tools.errors import UserError
from tools.measure import WorkloadSpec, materialise
from tools.measure.arrivals import mean_rate_rps
from tools.measure.draw import draw
from tools.measure.records import RequestRecord
from tools.service import Fit, Phase, Replica, ServiceCurve, fit_replica
from tools.service.estimate import estimate_curve, most_at_once, reading_cost
from tools.service.gaps import Gaps, step_table
from tools.service.isotonic import isotonic
from tools.service.load_spec import all_at_once, at_rate, mix_digest, one_at_a_time
from tools.service.token_scale import TokenScale


@pytest.fixture(scope="module")
def noisy() -> Fit:
    return fit_replica("noisy", "", play_phases(noise_s=0.0015))


def test_the_costs_are_found_again_through_noise(noisy: Fit) -> None:
    found, truth = noisy.replica.curve, TRUTH.curve
    assert found.seats == truth.seats and noisy.seats_are_a_limit
    assert found.prefill_s_per_token == pytest.approx(truth.prefill_s_per_token, rel=0.03)
    assert found.overhead_s == pytest.approx(truth.overhead_s + 0.0015, rel=0.1)  # stamps are late by that much
    for sequences in range(1, 13):
        assert found.step_s(sequences) == pytest.approx(truth.step_s(sequences), rel=0.03)
    assert noisy.replica.chunk_tokens == TRUTH.chunk_tokens


def test_corrections_of_a_model_that_is_right_are_none(noisy: Fit) -> None:
    assert all(0.95 < ratio < 1.05 for ratio in noisy.corrections.values())
    assert np.mean(noisy.jitter_s) == pytest.approx(0, abs=5e-4) and noisy.jitter_s[-1] > 0.002


def test_a_few_unlucky_requests_correct_next_to_nothing() -> None:
    phases = play_phases(noise_s=0.0015)
    found = fit_replica("unlucky", "", [_with_unlucky(phase) if phase.rate_rps else phase for phase in phases])
    lucky, unlucky = (
        statistics.fmean(phase.summary()["p95_ttft_ms"] for phase in each if phase.rate_rps)
        for each in (phases, [_with_unlucky(phase) for phase in phases])
    )
    assert unlucky > 1.3 * lucky
    assert found.corrections["p95_ttft_ms"] < 1.1  # of sixty requests a P95 is hardly known


def _with_unlucky(phase: Phase) -> Phase:
    """The same load, in which the tenth that waited longest waited 1.6 times as long."""
    waits_s = sorted(record.token_times_s[0] - record.sent_s for record in phase.records)
    long_s = waits_s[-len(waits_s) // 10]

    def late(record: RequestRecord) -> RequestRecord:
        wait_s = record.token_times_s[0] - record.sent_s
        by_s = 0.6 * wait_s if wait_s >= long_s else 0.0
        return replace(record, token_times_s=tuple(at + by_s for at in record.token_times_s), end_s=record.end_s + by_s)

    return replace(phase, load=replace(phase.load, records=tuple(late(record) for record in phase.records)))


def test_a_fit_goes_through_json_unchanged(noisy: Fit) -> None:
    assert Fit.from_json(json.loads(json.dumps(noisy.to_json()))) == noisy


def test_seats_that_nobody_waited_for_are_no_limit() -> None:
    roomy = replace(TRUTH, curve=replace(TRUTH.curve, seats=200))
    found = fit_replica("roomy", "", play_phases((), truth=roomy, burst=24))
    assert not found.seats_are_a_limit and found.replica.curve.seats == 24


def test_chunks_of_several_tokens_are_steps_of_several_tokens() -> None:
    phases = play_phases(())
    merged = [_in_chunks(phase, 2, told=True) for phase in phases]
    found = estimate_curve("x", "", merged[0].records, merged[1].records)
    assert found.step_s(1) == pytest.approx(TRUTH.curve.step_s(1), rel=0.05)
    assert found.step_s(12) == pytest.approx(TRUTH.curve.step_s(12), rel=0.1)
    untold = [_in_chunks(phase, 2, told=False) for phase in phases]
    assert len(Gaps.clean(untold[0].records).step_s) == len(untold[0].records)
    assert step_table([Gaps.clean(untold[0].records)])[0][1] == pytest.approx(TRUTH.curve.step_s(1), rel=0.05)
    fitted = fit_replica("untold", "", untold).replica.curve
    assert fitted.step_s(12) == pytest.approx(TRUTH.curve.step_s(12), rel=0.2)


def test_a_role_only_chunk_costs_nothing() -> None:
    phases = play_phases(())
    early = [tuple(replace(record, first_chunk_s=record.sent_s) for record in phase.records) for phase in phases]
    assert estimate_curve("x", "", *early) == estimate_curve("x", "", *(phase.records for phase in phases))


def test_gaps_with_a_prompt_in_them_are_left_out() -> None:
    records = play_phase("rate", at_rate(MIX, 8.0, 80), 3, rate_rps=8.0).records
    gaps = Gaps.clean(records)
    known = {count: TRUTH.step_s(count, 0) for count in range(1, 13)}
    assert len(gaps.step_s) > 100
    for count, step_s in zip(gaps.sequences.tolist(), gaps.step_s.tolist(), strict=True):
        assert step_s == pytest.approx(known[count], rel=1e-6)


def test_reading_cost_isn_t_tilted_by_a_slow_request() -> None:
    records = [_answered(read, 0.01 + 0.001 * read) for read in (10, 20, 40, 80, 160)] + [_answered(15, 3.0)]
    overhead_s, per_token_s = reading_cost(records)
    assert (overhead_s, per_token_s) == pytest.approx((0.01, 0.001), rel=0.05)
    assert reading_cost([_answered(50, 0.06)] * 3) == pytest.approx((0.06, 0.0))


def test_without_answers_there_is_no_curve() -> None:
    lost = replace(_answered(10, 1.0), outcome="failed", error="http_503")
    with pytest.raises(UserError, match="expected at least one answer"):
        estimate_curve("x", "", [lost], [lost])
    with pytest.raises(UserError, match="at least two tokens"):
        estimate_curve("x", "", [_answered(10, 1.0)], [_answered(10, 1.0)])


def test_most_at_once_frees_a_seat_before_it_is_taken() -> None:
    assert most_at_once([1.0, 2.0], [2.0, 3.0]) == 1
    assert most_at_once([1.0, 1.5], [2.0, 3.0]) == 2
    assert most_at_once([], []) == 1
    assert most_at_once([1.0, 1.9999], [2.0, 3.0]) == 2 and most_at_once([1.0, 1.9999], [2.0, 3.0], 0.001) == 1


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30))
def test_isotonic_is_ascending_keeps_the_mean_and_what_was_ascending(values: list[float]) -> None:
    level = isotonic(values)
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(level))
    assert sum(level) == pytest.approx(sum(values), abs=1e-6)
    assert isotonic(sorted(values)) == pytest.approx(sorted(values))


def test_isotonic_weighs() -> None:
    assert isotonic([2.0, 1.0], [3.0, 1.0]) == [1.75, 1.75]
    with pytest.raises(ValueError, match="weights above 0"):
        isotonic([1.0], [0.0])


CONVERSATIONS = WorkloadSpec.model_validate(
    {
        "class": "chat-plus",
        "requests": 30,
        "system_prompt_tokens": 40,
        "prompt_tokens": {"min": 10, "max": 60},
        "output_tokens": {"min": 5, "max": 20},
        "turns": {"min": 1, "max": 4},
        "turn_gap_s": 2.0,
        "arrivals": {"kind": "poisson", "rate_rps": 4},
    }
)


@pytest.mark.parametrize("hit_share", [0.0, 0.9])
def test_tokens_are_counted_as_the_server_counts_them(hit_share: float) -> None:
    workload = materialise(CONVERSATIONS, 3)
    records = []
    for request, words in zip(workload.requests, workload.prompt_words, strict=True):
        prompt, repeated = round(1.3 * words + 9), words - request.own_words if request.index else 0
        cached = round(1.3 * hit_share * repeated)
        times = tuple(float(place) for place in range(1, request.max_tokens + 1))
        record = _answered(prompt, 1.0, index=request.index)
        records.append(replace(record, cached_tokens=cached, token_times_s=times, output_tokens=request.max_tokens))
    scale = TokenScale.of([(workload, records)])
    assert scale.per_word == pytest.approx(1.3, rel=0.01) and scale.per_request == pytest.approx(9, abs=1)
    assert scale.hit_share == pytest.approx(hit_share, abs=0.02) and scale.output_share == 1.0
    jobs = scale.jobs(draw(CONVERSATIONS, 30, 3, part="measured", scheduled=True))
    read = [(record.prompt_tokens or 0) - (record.cached_tokens or 0) for record in records]
    assert [job.prompt_tokens for job in jobs] == pytest.approx(read, abs=3)
    assert [job.output_tokens for job in jobs] == [request.max_tokens for request in workload.requests]
    assert [job.due_s for job in jobs] == [request.scheduled_s for request in workload.requests]
    assert [job.after >= 0 for job in jobs] == [request.turn > 0 for request in workload.requests]


def test_the_loads_of_a_calibration_keep_the_mix() -> None:
    assert mean_rate_rps(at_rate(MIX, 9.0).arrivals) == 9.0
    assert at_rate(all_at_once(MIX, 10, 600), 3.0).arrivals.kind == "poisson"
    assert len({mix_digest(spec) for spec in (MIX, at_rate(MIX, 9.0, 5), all_at_once(MIX, 10, 600))}) == 1
    assert at_rate(MIX, 9.0).digest != MIX.digest
    fixed = WorkloadSpec.model_validate(
        {"requests": 5, "prompt_tokens": 100, "output_tokens": 8, "arrivals": {"kind": "burst"}}
    )
    probed = one_at_a_time(fixed, 12).prompt_tokens
    assert probed is not None and (probed.min, probed.max) == (25, 100)
    moments = {"kind": "replay", "times_s": [float(second) for second in range(60)]}
    replayed = WorkloadSpec.model_validate(MIX.model_dump(by_alias=True, exclude_unset=True) | {"arrivals": moments})
    last = materialise(at_rate(replayed, 2.0), 1).requests[-1].scheduled_s
    assert last == pytest.approx(30, rel=0.05)


def _answered(read: int, first_s: float, index: int = 0) -> RequestRecord:
    return RequestRecord(
        index, 0.0, 0.0, "ok", first_s, 200, token_times_s=(first_s,), prompt_tokens=read, output_tokens=1
    )


def _in_chunks(phase: Phase, size: int, *, told: bool) -> Phase:
    """The same load, each chunk with the tokens of `size` steps; the first token alone, as servers send it."""
    records = []
    for record in phase.records:
        rest = record.token_times_s[1:]
        whole = len(rest) - len(rest) % size
        times = (record.token_times_s[0], *rest[size - 1 : whole : size], *rest[whole:])
        counts = (1, *(size,) * (whole // size), *(1,) * (len(rest) - whole))
        records.append(replace(record, token_times_s=times, token_counts=counts if told else ()))
    return replace(phase, load=replace(phase.load, records=tuple(records)))


def test_a_replica_goes_through_json_unchanged() -> None:
    assert Replica.from_json(json.loads(json.dumps(TRUTH.to_json()))) == TRUTH
    assert isinstance(TRUTH.curve, ServiceCurve)
