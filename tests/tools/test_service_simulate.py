"""The simulator against what can be said by hand, and against the definitions of the measuring room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.played_phases import MIX, TRUTH, play_phase
from tools.measure import Measurement, summarise
from tools.service import Job, Replica, ServiceCurve, simulate
from tools.service.load_spec import at_rate
from tools.service.played_summary import played_summary

CURVE = ServiceCurve("hand", "", 2, 0.010, 0.001, ((1, 0.020), (2, 0.030)), 50, 3)
ENGINE = Replica(CURVE, chunk_tokens=64, latency_share=0.5)


def test_a_request_alone_takes_what_the_curve_says() -> None:
    played = simulate(ENGINE, [Job(1.0, 50, 3)])
    assert played.ttft_s.tolist() == pytest.approx([CURVE.prefill_s(50)])
    assert played.e2el_s.tolist() == pytest.approx([CURVE.prefill_s(50) + 2 * 0.020])
    assert played.itl_s.tolist() == pytest.approx([0.020, 0.020])


def test_a_long_prompt_is_read_in_chunks_and_each_is_a_step() -> None:
    played = simulate(ENGINE, [Job(0.0, 150, 1)])
    assert played.ttft_s.tolist() == pytest.approx([0.005 + 3 * 0.005 + 0.150])  # 64 + 64 + 22 tokens


def test_a_prompt_is_read_beside_a_decoding_sequence_and_holds_it_up() -> None:
    played = simulate(ENGINE, [Job(0.0, 10, 4), Job(0.021, 40, 1)])
    # The first token of the first job comes at 20 ms; the second is there at 26 ms, in the middle of a step to 40 ms.
    assert played.first_token_s.tolist() == pytest.approx([0.020, 0.040 + 0.020 + 0.040])
    assert played.itl_s.tolist() == pytest.approx([0.020, 0.060, 0.020])


def test_who_finds_no_seat_waits_for_one() -> None:
    played = simulate(ENGINE, [Job(0.0, 20, 10), Job(0.0, 20, 10), Job(0.0, 20, 1)])
    assert played.first_token_s[2] > played.last_token_s[:2].min()
    roomy = simulate(replace(ENGINE, curve=replace(CURVE, seats=3)), [Job(0.0, 20, 10)] * 2 + [Job(0.0, 20, 1)])
    assert roomy.ttft_s[2] < played.ttft_s[2]


def test_a_later_turn_is_due_its_pause_after_the_answer() -> None:
    played = simulate(ENGINE, [Job(0.0, 20, 5), Job(None, 30, 2, after=0, gap_s=1.5)])
    assert played.due_s[1] == pytest.approx(played.last_token_s[0] + 1.5)


def test_a_closed_loop_has_never_more_than_its_users_in_flight() -> None:
    played = simulate(ENGINE, [Job(None, 20, 5)] * 12, users=3)
    for moment_s in played.first_token_s:
        assert np.sum((played.due_s <= moment_s) & (played.last_token_s > moment_s)) <= 3
    assert sorted(played.due_s.tolist())[:3] == [0, 0, 0] and played.due_s[3:].min() > 0


def test_jobs_that_nothing_starts_are_refused() -> None:
    with pytest.raises(ValueError, match="no moment at which it is due"):
        simulate(ENGINE, [Job(None, 20, 5)])
    with pytest.raises(ValueError, match="expected an earlier one"):
        simulate(ENGINE, [Job(None, 20, 5, after=0)])


def test_the_summary_of_arrays_is_that_of_the_records() -> None:
    phase = play_phase("rate", at_rate(MIX, 6.0, 400), 5, rate_rps=6.0)
    by_records = summarise(Measurement.of(phase.workload, phase.load, config_digest=""))
    jobs = [Job(r.scheduled_s, r.prompt_tokens or 0, r.output_tokens or 0) for r in phase.records]
    by_arrays = played_summary(simulate(TRUTH, jobs))
    assert {"p99_ttft_ms", "p95_itl_ms", "mean_tpot_ms", "p50_e2el_ms"} <= by_arrays.keys()
    assert by_arrays == pytest.approx({name: by_records[name] for name in by_arrays})


jobs_of_any_kind = st.lists(
    st.builds(Job, st.floats(0, 3), st.integers(1, 300), st.integers(1, 40)),
    min_size=1,
    max_size=30,
)
replicas = st.builds(
    lambda seats, chunk, share, slope: Replica(
        replace(CURVE, seats=seats, steps=((1, 0.02), (8, 0.02 + slope))), chunk, share
    ),
    st.integers(1, 8),
    st.integers(1, 300),
    st.floats(0, 1),
    st.floats(0, 0.1),
)


@settings(max_examples=150)
@given(replicas, jobs_of_any_kind)
def test_nothing_is_lost_nobody_is_early_and_seats_are_kept(replica: Replica, jobs: list[Job]) -> None:
    played = simulate(replica, jobs)
    assert len(played.itl_s) == sum(job.output_tokens - 1 for job in jobs)
    assert np.all(np.diff(played.steps_s) > 0)
    alone_s = [simulate(replica, [replace(job, due_s=0.0)]).e2el_s[0] for job in jobs]
    assert np.all(played.e2el_s >= np.array(alone_s) - 1e-9)
    for moment_s in played.first_token_s:
        decoding = np.sum((played.first_token_s <= moment_s) & (played.last_token_s > moment_s))
        assert decoding <= replica.curve.seats
    # As many steps as there are distinct moments: no step is idle.
    assert len(played.steps_s) <= sum(job.prompt_tokens + job.output_tokens for job in jobs)


@settings(max_examples=50)
@given(replicas, jobs_of_any_kind)
def test_it_plays_the_same_load_the_same_way(replica: Replica, jobs: list[Job]) -> None:
    assert simulate(replica, jobs).steps_s.tolist() == simulate(replica, jobs).steps_s.tolist()
