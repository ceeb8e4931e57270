"""Self-doubt: each question is asked of a load that has the fault and of an honest one that looks a little like it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.tools.simulated_queues import simulated_load
from tools.measure import (
    ClientHealth,
    Measurement,
    RequestRecord,
    Slo,
    Workload,
    WorkloadSpec,
    materialise,
    sharing_bound,
)
from tools.measure.doubts import QUESTIONS, Case, Doubt, doubts
from tools.measure.doubts.drift import drift
from tools.measure.doubts.over_saturated import over_saturated
from tools.measure.doubts.warm_up import warm_up
from tools.measure.floor import Floor
from tools.measure.steady import steady_part

FLOOR = Floor(send_lag_p99_ms=0.5, stamp_jitter_p99_ms=0.3, ttft_overhead_ms=0.4, max_chunks_per_s=40_000)
HONEST = simulated_load(400, seed=1)


def named(name: str, measurement: Measurement, **known: Any) -> Doubt | None:
    found = [doubt for doubt in doubts(measurement, **known) if doubt.name == name]
    assert len(found) <= 1
    return found[0] if found else None


def each(change: Callable[[RequestRecord], RequestRecord], measurement: Measurement = HONEST) -> Measurement:
    return replace(measurement, records=tuple(change(record) for record in measurement.records))


def some(
    count: int, change: Callable[[RequestRecord], RequestRecord], measurement: Measurement = HONEST
) -> Measurement:
    return each(lambda record: change(record) if record.index < count else record, measurement)


def lost(error: str) -> Callable[[RequestRecord], RequestRecord]:
    return lambda record: replace(record, outcome="failed", error=error, token_times_s=(), token_counts=())


def test_an_honest_load_raises_no_doubt() -> None:
    assert doubts(HONEST, floor=FLOOR, slo=Slo(ttft_ms={"p95": 500})) == ()


def test_doubts_speak_and_go_into_json_and_the_invalid_ones_come_first() -> None:
    faulty = replace(some(3, lost("token_count_mismatch: 3 and 4")), client=ClientHealth(900.0, 0.99))
    found = doubts(faulty, floor=FLOOR)
    assert [doubt.invalid for doubt in found] == sorted((doubt.invalid for doubt in found), reverse=True)
    assert {doubt.name for doubt in found} == {"client_limited", "token_mismatch", "unanswered"}
    assert str(found[0]).startswith("INVALID client_limited: ")
    json.dumps([doubt.to_json() for doubt in found], allow_nan=False)
    assert len({question.__name__ for question in QUESTIONS}) == len(QUESTIONS) == 13


# --- the client ---


@pytest.mark.parametrize(
    ("health", "invalid"),
    [
        (ClientHealth(60.0, 0.5), False),  # by the records nobody was late
        (ClientHealth(0.1, 0.95), True),
        (ClientHealth(0.1, 0.95, 4), True),
    ],
)
def test_a_busy_client_was_the_limit(health: ClientHealth, invalid: bool) -> None:
    found = named("client_limited", replace(HONEST, client=health))
    assert (found is not None and found.invalid) is invalid
    assert found is None or "--workers" in found.sentence


def late(by_s: float) -> Callable[[RequestRecord], RequestRecord]:
    return lambda record: replace(record, sent_s=record.scheduled_s + by_s)


def test_a_client_that_sends_late_was_the_limit() -> None:
    offered = len(HONEST.records)
    assert named("client_limited", each(late(0.009))) is None
    found = named("client_limited", each(late(0.06)))
    assert found is not None and found.invalid and f"{offered} of {offered} requests" in found.sentence
    assert named("client_limited", some(offered // 20, late(0.06))) is None  # the odd one, by the machine's doing
    assert named("client_limited", some(offered // 10, late(0.06))) is not None


def test_a_lag_that_is_small_against_the_latency_is_none() -> None:
    def slow(record: RequestRecord) -> RequestRecord:
        times_s = tuple(time_s + 9 for time_s in record.token_times_s)
        return late(0.06)(replace(record, token_times_s=times_s, end_s=record.end_s + 9))

    assert named("client_limited", each(slow)) is None


def test_a_burst_is_late_only_against_its_whole_time() -> None:
    whole_s = HONEST.window_s

    def at_once(share: float) -> Measurement:
        return each(lambda record: replace(record, scheduled_s=0.0, sent_s=share * whole_s))

    assert named("client_limited", at_once(0.05)) is None
    assert named("client_limited", at_once(0.2)) is not None


def test_a_chunk_rate_near_the_client_maximum_is_its_limit() -> None:
    rate = sum(len(record.token_times_s) for record in HONEST.records) / HONEST.window_s
    near, far = replace(FLOOR, max_chunks_per_s=rate * 1.1), replace(FLOOR, max_chunks_per_s=rate * 1.5)
    assert named("client_limited", HONEST, floor=near) is not None
    assert named("client_limited", HONEST, floor=far) is None
    two = replace(HONEST, client=ClientHealth(0.1, 0.2, 2))
    assert named("client_limited", two, floor=near) is None  # two processes read twice as much


# --- the clock and the counts ---


def test_a_skewed_clock_is_invalid() -> None:
    assert named("clock_skew", each(lambda record: replace(record, clock_skew_s=-3600.0))) is not None
    assert named("clock_skew", each(lambda record: replace(record, clock_skew_s=1.0))) is None
    assert named("clock_skew", some(50, lambda record: replace(record, clock_skew_s=0.5))) is None


def test_one_contradicted_count_is_one_too_many() -> None:
    found = named("token_mismatch", some(1, lost("token_count_mismatch: 3 chunks with text, usage says 2 tokens")))
    assert found is not None and found.invalid and "usage says 2" in found.sentence
    assert named("token_mismatch", some(1, lost("no_usage: none"))) is None


def test_what_was_not_answered_is_told_with_its_reasons() -> None:
    found = named("unanswered", some(5, lost("http_503: busy")))
    assert found is not None and not found.invalid and "http_503 5" in found.sentence
    nothing = named("unanswered", each(lost("connect: refused")))
    assert nothing is not None and nothing.invalid
    missing = named("unanswered", replace(HONEST, offered=402))
    assert missing is not None and "no_record 2" in missing.sentence
    assert doubts(replace(HONEST, records=(), offered=3))[0].invalid


# --- chunks ---


def test_an_early_flush_is_told() -> None:
    assert named("early_chunk", some(1, lost("early_chunk: text was sent before the first token"))) is not None

    def blanks(record: RequestRecord) -> RequestRecord:
        return replace(record, first_chunk_s=record.sent_s + 1e-4, token_counts=(4, *record.token_counts[1:]))

    late = each(lambda record: replace(record, token_times_s=tuple(time_s + 1 for time_s in record.token_times_s)))
    assert named("early_chunk", each(blanks, late)) is not None
    # An early role-only chunk is usual, and speculation fills the first chunk as it does others.
    assert named("early_chunk", each(lambda record: replace(record, first_chunk_s=record.sent_s), late)) is None
    speculative = each(
        lambda record: replace(record, first_chunk_s=record.sent_s, token_counts=(4, 1, 3, *record.token_counts[3:])),
        late,
    )
    assert named("early_chunk", speculative) is None


def test_answers_in_one_piece_are_buffered_and_not_fast() -> None:
    def piece(record: RequestRecord) -> RequestRecord:
        return replace(record, token_times_s=(record.end_s,) * 11)

    found = named("buffered", each(piece), floor=FLOOR)
    assert found is not None and found.invalid
    assert named("impossible_speed", each(piece), floor=FLOOR) is None
    assert named("buffered", some(150, piece)) is None
    quick = each(
        lambda record: replace(record, token_times_s=tuple(record.end_s - 0.001 * left for left in range(10, -1, -1)))
    )
    assert named("buffered", quick) is None  # a thousand tokens a second after a long prompt


def test_chunks_of_several_tokens_are_told_with_what_to_read() -> None:
    batched = each(lambda record: replace(record, token_counts=(2,) * 11, output_tokens=22))
    found = named("multi_token_chunks", batched)
    assert found is not None and "itl_tok" in found.sentence
    untold = each(lambda record: replace(record, token_counts=(), output_tokens=22))
    found = named("multi_token_chunks", untold)
    assert found is not None and "tpot" in found.sentence
    assert named("multi_token_chunks", HONEST) is None


# --- physics ---


def test_no_stream_is_faster_than_physics() -> None:
    fast = some(1, lambda record: replace(record, output_tokens=10_000_000))
    found = named("impossible_speed", fast)
    assert found is not None and found.invalid and "single answer" in found.sentence
    brisk = each(lambda record: replace(record, output_tokens=1000, token_counts=()))
    assert named("impossible_speed", brisk) is None


def test_no_answer_comes_before_its_request_or_under_the_floor() -> None:
    before = some(1, lambda record: replace(record, sent_s=record.token_times_s[0] + 0.1))
    assert named("impossible_speed", before) is not None
    instant = each(lambda record: replace(record, token_times_s=(record.sent_s + 1e-4, *record.token_times_s[1:])))
    assert named("impossible_speed", instant, floor=FLOOR) is not None
    assert named("impossible_speed", instant) is None  # without a floor nobody can tell
    assert named("impossible_speed", HONEST, floor=FLOOR) is None


# --- the prefix cache ---

SHARING = WorkloadSpec.model_validate(
    {
        "requests": 400,
        "system_prompt_tokens": 100,
        "prompt_tokens": 100,
        "output_tokens": 11,
        "arrivals": {"kind": "poisson", "rate_rps": 4},
    }
)


def cached(tokens: int, workload: Workload) -> Measurement:
    prompts = {request.index: request.own_words + 100 for request in workload.requests}
    return each(lambda record: replace(record, prompt_tokens=prompts[record.index], cached_tokens=tokens))


def test_more_hits_than_the_workload_shares_mean_a_warm_cache() -> None:
    workload = materialise(SHARING, 1)
    warm = cached(150, workload)
    bound = sharing_bound(workload, warm.records)
    assert bound == pytest.approx(0.5)
    found = named("prefix_hits", warm, workload=workload)
    assert found is not None and found.invalid and "warm" in found.sentence
    assert named("prefix_hits", warm) is None  # without the workload nobody can tell
    counted = replace(
        cached(96, workload),
        counters_before={"prefix_queries_tokens": 0.0, "prefix_hit_tokens": 0.0},
        counters_after={"prefix_queries_tokens": 80_000.0, "prefix_hit_tokens": 60_000.0},
    )
    found = named("prefix_hits", counted, workload=workload)
    assert found is not None and found.invalid


def test_honest_hits_are_fine_and_far_fewer_are_told() -> None:
    workload = materialise(SHARING, 1)
    assert named("prefix_hits", cached(96, workload), workload=workload) is None
    found = named("prefix_hits", cached(0, workload), workload=workload)
    assert found is not None and not found.invalid
    alone = materialise(SHARING.model_copy(update={"system_prompt_tokens": 0}), 1)
    assert named("prefix_hits", each(lambda record: replace(record, cached_tokens=0)), workload=alone) is None


# --- enough requests ---


def test_too_few_requests_for_a_promise_say_how_many_would_do() -> None:
    slo = Slo(ttft_ms={"p50": 900, "p99": 9000}, itl_ms={"p95": 900})
    short = simulated_load(100, seed=1)
    found = named("too_few", short, slo=slo)
    assert found is not None and found.evidence.keys() == {"needed_requests_p99_ttft_ms"}
    assert found.evidence["needed_requests_p99_ttft_ms"] >= 368
    assert named("too_few", simulated_load(900, seed=1), slo=slo) is None
    assert named("too_few", short) is None
    refused = named("too_few", some(300, lost("http_503: busy")), slo=Slo(ttft_ms={"p95": 900}))
    assert refused is None  # its percentile is infinite, not unknown


def test_a_busy_queue_needs_more_than_the_textbook() -> None:
    busy = simulated_load(800, servers=1, load=0.9, seed=5)
    found = named("too_few", busy, slo=Slo(ttft_ms={"p99": 9000}))
    assert found is not None and found.evidence["needed_requests_p99_ttft_ms"] > 1600


# --- steady state ---

STATISTICAL = (warm_up, drift, over_saturated)


def test_honest_loads_seldom_raise_an_alarm() -> None:
    alarms = {question.__name__: 0 for question in STATISTICAL}
    kinds = [(8, 0.5, 300), (8, 0.8, 150), (1, 0.8, 300)]
    for servers, load, requests in kinds:
        for seed in range(70):
            case = Case(simulated_load(requests, servers=servers, load=load, seed=seed))
            for question in STATISTICAL:
                alarms[question.__name__] += question(case) is not None
    assert max(alarms.values()) <= 0.05 * 70 * len(kinds), alarms


def test_a_cold_start_is_found_and_its_length_told() -> None:
    def cold(share: float) -> float:
        return 2.5 if share < 0.1 else 1.0

    loads = [simulated_load(600, load=0.3, seed=seed, settled=False, slowness=cold) for seed in range(10)]
    found = [doubt for load in loads if (doubt := named("warm_up", load)) is not None]
    assert len(found) >= 9
    assert not any(doubt.invalid for doubt in found)
    assert statistics.median(doubt.evidence["drop_requests"] for doubt in found) in (60, 65)  # a tenth of 600
    assert all(doubt.evidence["ratio"] > 2 for doubt in found)
    assert "long enough" in found[0].sentence


def test_the_steady_part_begins_where_the_start_ends() -> None:
    assert steady_part([5.0] * 30 + [1.0, 1.1] * 100).drop == 30
    assert steady_part([1.0] * 19).drop == 0
    assert not steady_part([float(n) for n in range(200)]).settled
    assert steady_part([1.0, 1.1] * 100).settled


def test_a_server_that_slows_down_drifts() -> None:
    loads = [simulated_load(1000, load=0.3, seed=seed, slowness=lambda share: 1 + share) for seed in range(10)]
    found = [doubt for load in loads if (doubt := named("drift", load)) is not None]
    assert len(found) >= 9
    before, after = (found[0].evidence[f"{half}_half_typical_e2el_ms"] for half in ("first", "second"))
    assert after > 1.1 * before


def test_a_rate_above_capacity_is_over_saturated() -> None:
    found = [named("over_saturated", simulated_load(400, load=1.4, seed=seed, settled=False)) for seed in range(10)]
    assert sum(doubt is not None for doubt in found) >= 9


def with_arrivals(arrivals: dict[str, Any]) -> Workload:
    return materialise(SHARING.model_copy(update={"arrivals": arrivals_of(arrivals)}), 1)


def arrivals_of(arrivals: dict[str, Any]) -> Any:
    return WorkloadSpec.model_validate({**SHARING.model_dump(by_alias=True), "arrivals": arrivals}).arrivals


def test_bursts_closed_loops_and_ramps_are_not_asked_for_what_they_cannot_have() -> None:
    growing = simulated_load(400, load=1.4, seed=1, settled=False)
    poisson = with_arrivals({"kind": "poisson", "rate_rps": 4})
    assert named("over_saturated", growing, workload=poisson) is not None
    closed = with_arrivals({"kind": "closed", "concurrency": 8})
    assert named("over_saturated", growing, workload=closed) is None
    for arrivals in ({"kind": "burst"}, {"kind": "ramp", "from_rps": 1, "to_rps": 9}):
        case = Case(growing, with_arrivals(arrivals))
        assert all(question(case) is None for question in STATISTICAL)
    at_once = each(lambda record: replace(record, scheduled_s=0.0, sent_s=0.0), simulated_load(400, load=0.5, seed=2))
    assert all(question(Case(at_once)) is None for question in STATISTICAL)


def test_over_saturation_waits_for_answers() -> None:
    young = simulated_load(30, load=3.0, seed=1, settled=False)
    assert over_saturated(Case(young)) is None
