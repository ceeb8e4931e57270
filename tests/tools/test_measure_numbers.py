"""From raw records to numbers: latencies, percentiles, intervals, goodput, and the record's way through JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tools.canonical import canonical_json
from tools.measure import (
    METRICS,
    ClientHealth,
    Measurement,
    RequestRecord,
    Slo,
    SloMiss,
    lower_is_better,
    percentile,
    percentile_interval,
    summarise,
    summary_intervals,
    wilson_interval,
)
from tools.measure.slices import SliceKey, slices
from tools.measure.summary import tokens_per_price
from tools.targets.target import Identity


def ok(
    index: int = 0, *, due: float = 0.0, lag: float = 0.0, times: tuple[float, ...] = (0.5, 0.6, 0.8)
) -> RequestRecord:
    """Token times count from when the request was due."""
    moments = tuple(due + time for time in times)
    return RequestRecord(
        index=index,
        scheduled_s=due,
        sent_s=due + lag,
        outcome="ok",
        end_s=moments[-1],
        http_status=200,
        token_times_s=moments,
        token_counts=(1,) * len(times),
        prompt_tokens=10,
        output_tokens=len(times),
        token_source="usage",
        finish_reason="length",
    )


def measurement(*records: RequestRecord, window_s: float = 10.0, **changes: Any) -> Measurement:
    plain = Measurement(
        workload_digest="w",
        spec_digest="s",
        seed=0,
        config_digest="c",
        offered=len(records),
        started_at=1.7e9,
        window_s=window_s,
        records=records,
        client=ClientHealth(0.1, 0.2),
    )
    return replace(plain, **changes)


def timed_out(index: int, after: float, times: tuple[float, ...] = ()) -> RequestRecord:
    counts = (1,) * len(times)
    return RequestRecord(index, 0.0, 0.0, "timed_out", after, token_times_s=times, token_counts=counts)


def failed(index: int) -> RequestRecord:
    return RequestRecord(index, 0.0, 0.0, "failed", 0.001, http_status=503, error="http_503: busy")


def test_the_definitions_on_one_request() -> None:
    found = summarise(measurement(ok(lag=0.1)))
    assert found["mean_ttft_ms"] == pytest.approx(500)
    assert found["mean_ttft_from_send_ms"] == pytest.approx(400)
    assert found["mean_e2el_ms"] == pytest.approx(800)
    assert found["mean_e2el_from_send_ms"] == pytest.approx(700)
    assert found["mean_tpot_ms"] == pytest.approx(150)  # (0.8 - 0.5) / (3 - 1)
    assert found["mean_itl_ms"] == pytest.approx(150)
    assert found["max_itl_ms"] == pytest.approx(200)
    assert found["request_throughput"] == pytest.approx(0.1)
    assert found["output_throughput"] == pytest.approx(0.3)
    assert found["total_token_throughput"] == pytest.approx(1.3)


def test_a_slow_client_is_part_of_the_latency() -> None:
    late = summarise(measurement(ok(lag=0.4)))
    prompt = summarise(measurement(ok(lag=0.0)))
    assert late["p95_ttft_ms"] == prompt["p95_ttft_ms"]
    assert late["p95_ttft_from_send_ms"] < prompt["p95_ttft_from_send_ms"]


def test_batched_chunks_count_per_token_in_tpot_and_itl_tok() -> None:
    record = replace(ok(times=(0.5, 0.9)), token_counts=(4, 4), output_tokens=8)
    found = summarise(measurement(record))
    assert found["mean_tpot_ms"] == pytest.approx(400 / 7)
    assert found["mean_itl_ms"] == pytest.approx(400)
    assert found["mean_itl_tok_ms"] == pytest.approx(100)
    assert found["tokens_per_chunk_mean"] == pytest.approx(4)


def test_one_token_has_no_tpot() -> None:
    found = summarise(measurement(ok(times=(0.5,))))
    assert not any("tpot" in name or "itl" in name for name in found)


def test_giving_requests_up_never_makes_the_tail_look_better() -> None:
    slow = [ok(n, times=(0.5, 9.0)) for n in range(2)]
    honest = summarise(measurement(*slow, *(ok(n) for n in range(2, 20))))
    censored = summarise(measurement(*(timed_out(n, 10.0) for n in range(2)), *(ok(n) for n in range(2, 20))))
    assert censored["p95_e2el_ms"] >= honest["p95_e2el_ms"]
    assert censored["p95_ttft_ms"] > honest["p95_ttft_ms"]
    stalled = summarise(measurement(timed_out(0, 10.0, times=(0.5, 0.6))))
    assert stalled["max_itl_ms"] == pytest.approx(9400)
    assert stalled["mean_tpot_ms"] == pytest.approx(9500 / 2)
    assert stalled["mean_ttft_ms"] == pytest.approx(500)


def test_refusing_requests_never_makes_the_tail_look_better() -> None:
    found = summarise(measurement(*(failed(n) for n in range(2)), *(ok(n) for n in range(2, 20))))
    assert "p95_ttft_ms" not in found  # it falls on a refused request
    assert found["p50_ttft_ms"] == pytest.approx(500)
    assert (found["completed"], found["failed"], found["timed_out"]) == (18, 2, 0)


def test_what_cannot_be_told_is_absent_never_zero() -> None:
    found = summarise(measurement(failed(0)))
    assert {name for name in found if name.endswith("_ms")} == set()
    assert "prefix_hit_rate" not in found and "request_goodput" not in found and "slo_attainment" not in found
    assert found["completed"] == 0


def test_a_p99_needs_368_samples() -> None:
    assert "p99_ttft_ms" not in summarise(measurement(*(ok(n) for n in range(367))))
    enough = measurement(*(ok(n) for n in range(368)))
    assert "p99_ttft_ms" in summarise(enough)
    assert "p99_ttft_ms" in summary_intervals(enough)


def test_the_hit_rate_comes_from_the_counters_and_not_from_a_restarted_server() -> None:
    before = {"prefix_queries_tokens": 100.0, "prefix_hit_tokens": 90.0}
    after = {"prefix_queries_tokens": 300.0, "prefix_hit_tokens": 140.0}
    found = summarise(measurement(ok(), counters_before=before, counters_after=after))
    assert found["prefix_hit_rate"] == pytest.approx(0.25)
    assert "prefix_hit_rate" not in summarise(measurement(ok(), counters_before=after, counters_after=before))


def test_goodput_counts_offered_requests_that_kept_the_promise() -> None:
    slo = Slo(ttft_ms={"p50": 100, "p95": 600}, e2el_ms={"p95": 900})
    records = [ok(0), ok(1, times=(0.7, 0.8)), ok(2, times=(0.5, 1.0)), failed(3), timed_out(4, 0.1)]
    found = summarise(measurement(*records), slo)
    assert found["slo_attainment"] == pytest.approx(1 / 5)
    assert found["request_goodput"] == pytest.approx(0.1)
    interval = summary_intervals(measurement(*records), slo)["slo_attainment"]
    assert interval.low < 1 / 5 < interval.high


def test_a_stall_breaks_an_itl_promise() -> None:
    slo = Slo(itl_ms={"p99": 150})
    assert not slo.request_good(ok())
    assert slo.request_good(ok(times=(0.5, 0.6, 0.7)))
    assert slo.request_good(ok(times=(0.5,)))


STUTTER = Slo.model_validate({"stutter": {"gap_ms": 150, "max_share": 0.25}})


def test_stutter_is_the_share_of_sequences_with_a_pause() -> None:
    smooth = ok(0, times=(0.5, 0.6, 0.7))
    found = summarise(measurement(smooth, ok(1), ok(2, times=(0.5,)), failed(3)), STUTTER)
    assert found["stutter_share"] == pytest.approx(2 / 4)  # one paused for 200 ms, one failed; one token has no gap
    assert [str(miss) for miss in STUTTER.misses(found)] == ["stutter_share: promised 0.25, found 0.5"]
    assert STUTTER.bounds() == {"stutter_share": 0.25}
    assert not STUTTER.misses(summarise(measurement(smooth, smooth, smooth, ok(3)), STUTTER))
    assert "stutter_share" not in summarise(measurement(smooth), Slo(ttft_ms={"p95": 1}))


@pytest.mark.parametrize("paused", range(1, 20))
def test_a_share_that_just_meets_its_bound_is_met(paused: int) -> None:
    slo = Slo.model_validate({"stutter": {"gap_ms": 150, "max_share": paused / 20}})
    records = [ok(n, times=(0.5, 0.9) if n < paused else (0.5, 0.6)) for n in range(20)]
    assert not slo.misses(summarise(measurement(*records), slo))


def test_a_lost_record_and_an_unfinished_gap_stutter() -> None:
    smooth = ok(0, times=(0.5, 0.6))
    assert summarise(measurement(smooth, offered=2), STUTTER)["stutter_share"] == pytest.approx(0.5)
    assert summarise(measurement(timed_out(0, 9.0, times=(0.5, 0.6))), STUTTER)["stutter_share"] == 1
    interval = summary_intervals(measurement(*(ok(n) for n in range(20)), offered=40), STUTTER)["stutter_share"]
    assert interval.high == 1 and interval.low > 0.8


def test_a_request_with_a_pause_is_not_good() -> None:
    assert STUTTER.request_good(ok(times=(0.5, 0.6)))
    assert not STUTTER.request_good(ok())
    assert summarise(measurement(ok(0), ok(1, times=(0.5, 0.6))), STUTTER)["slo_attainment"] == pytest.approx(0.5)


@pytest.mark.parametrize("stutter", [{"gap_ms": 0, "max_share": 0.1}, {"gap_ms": 9, "max_share": 1}, {"gap_ms": 9}])
def test_a_stutter_promise_that_is_none_is_refused(stutter: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Slo.model_validate({"stutter": stutter})


def turns(*records: RequestRecord, conversation: int) -> list[RequestRecord]:
    return [replace(record, conversation=conversation, turn=turn) for turn, record in enumerate(records)]


def test_a_task_takes_as_long_as_its_answers_together() -> None:
    first = turns(ok(0), ok(1, due=100.0, times=(0.5, 1.2)), conversation=0)
    second = turns(ok(2), conversation=1)
    found = summarise(measurement(*first, *second))
    assert found["p50_task_ms"] == pytest.approx((2000 + 800) / 2)  # the pause between turns isn't in it
    lost = turns(ok(3), failed(4), conversation=2)
    assert "p95_task_ms" not in summarise(measurement(*first, *second, *lost))
    assert not any("task" in name for name in summarise(measurement(*second, ok(7))))


def test_tokens_for_money() -> None:
    found = tokens_per_price({"total_token_throughput": 5000.0, "output_throughput": 1000.0}, 3.6)
    assert found == {
        "mtokens_per_currency": pytest.approx(5.0),
        "output_mtokens_per_currency": pytest.approx(1.0),
    }
    assert tokens_per_price({"output_throughput": 1000.0}, 3.6).keys() == {"output_mtokens_per_currency"}
    with pytest.raises(ValueError, match="price"):
        tokens_per_price({}, 0)


def test_slices_of_time_show_who_waited_and_how_much_was_served() -> None:
    calm = [ok(n, due=float(n)) for n in range(50)]
    slow = [ok(n, due=float(n), times=(5.0, 5.1)) for n in range(50, 101)]
    first, second = slices(measurement(*calm, *slow), "time", 2)
    assert (first.requests, second.requests) == (50, 51)
    assert first.summary["p50_ttft_ms"] == pytest.approx(500) and second.summary["p50_ttft_ms"] == pytest.approx(5000)
    assert first.summary["request_throughput"] == pytest.approx(1.0)
    assert "duration" not in first.summary and "p50_ttft_ms" in first.intervals
    json.dumps(first.to_json())


def test_slices_of_turns_and_tokens() -> None:
    conversations = [turns(*(ok(3 * n + turn, due=float(turn)) for turn in range(3)), conversation=n) for n in range(4)]
    measured = measurement(*(record for records in conversations for record in records))
    by_turn = slices(measured, "turn", 2)
    assert [(part.low, part.high, part.requests) for part in by_turn] == [(0, 0, 4), (1, 2, 8)]
    assert not any("throughput" in name or "task" in name for part in by_turn for name in part.summary)
    prompts = measurement(*(replace(ok(n), prompt_tokens=10 * (1 + n // 5)) for n in range(20)), failed(20))
    assert [(part.low, part.requests) for part in slices(prompts, "prompt", 4)] == [
        (10, 5),
        (20, 5),
        (30, 5),
        (40, 5),
    ]
    assert slices(measurement(failed(0)), "output") == ()
    assert len(slices(measurement(*(ok(n) for n in range(9))), "prompt", 5)) == 1  # equal ones are never parted
    with pytest.raises(ValueError, match="at least 1"):
        slices(measured, "turn", 0)


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=40), st.integers(1, 7), st.sampled_from(["time", "prompt"]))
def test_slices_part_the_requests(due_s: list[float], parts: int, by: SliceKey) -> None:
    records = [replace(ok(n, due=due), prompt_tokens=int(due) % 9) for n, due in enumerate(due_s)]
    cut = slices(measurement(*records), by, parts)
    assert sum(part.requests for part in cut) == len(records)
    assert len(cut) <= parts and all(part.requests for part in cut)
    assert all(earlier.high < later.low for earlier, later in pairwise(cut))


def test_a_promise_that_cannot_be_measured_is_missed() -> None:
    slo = Slo(ttft_ms={"p95": 600, "p99": 900}, tpot_ms={"mean": 1})
    assert slo.bounds() == {"p95_ttft_ms": 600, "p99_ttft_ms": 900, "mean_tpot_ms": 1}
    misses = slo.misses(summarise(measurement(*(ok(n) for n in range(20)))))
    assert SloMiss("p99_ttft_ms", 900, None) in misses
    assert [miss.metric for miss in misses] == ["p99_ttft_ms", "mean_tpot_ms"]
    assert slo.misses({"p95_ttft_ms": math.nan, "p99_ttft_ms": 1, "mean_tpot_ms": 1})[0].metric == "p95_ttft_ms"
    assert "not measurable" in str(misses[0])


@pytest.mark.parametrize(
    "promise",
    [{"ttft_ms": {"p95": 0}}, {"ttft_ms": {"p95": -5}}, {"ttft_ms": {"p42": 5}}, {"ttft_ms": {}}, {"ttfb": {}}],
)
def test_a_promise_that_is_none_is_refused(promise: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Slo.model_validate(promise)


def test_every_metric_has_a_direction() -> None:
    assert len(set(METRICS)) == len(METRICS)
    assert lower_is_better("p95_ttft_ms") and lower_is_better("failed")
    assert not lower_is_better("request_goodput") and not lower_is_better("prefix_hit_rate")
    with pytest.raises(ValueError, match="METRICS"):
        lower_is_better("p95_ttft_s")


numbers = st.floats(0, 1e6)


@given(st.lists(numbers, min_size=1, max_size=60), st.floats(0, 1))
def test_percentiles_are_numpys(samples: list[float], share: float) -> None:
    assert percentile(sorted(samples), share) == pytest.approx(float(np.percentile(samples, share * 100)), abs=1e-6)


def test_a_percentile_on_an_infinite_sample_is_none() -> None:
    assert percentile([1.0, 2.0, math.inf], 0.5) == 2.0
    assert percentile([1.0, 2.0, math.inf], 0.75) is None
    assert percentile([1.0, math.inf, math.inf], 1.0) is None
    assert percentile([], 0.5) is None


@pytest.mark.parametrize(("share", "fewest"), [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368)])
def test_an_interval_exists_from_its_least_sample_on(share: float, fewest: int) -> None:
    assert percentile_interval([float(n) for n in range(fewest - 1)], share) is None
    assert percentile_interval([float(n) for n in range(fewest)], share) is not None


@given(st.integers(6, 300), st.sampled_from([0.5, 0.9, 0.95]))
@settings(deadline=None)
def test_an_interval_is_the_narrowest_that_the_binomial_allows(n: int, share: float) -> None:
    interval = percentile_interval([float(rank) for rank in range(1, n + 1)], share)
    mass = [math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(n + 1)]
    low = max((r for r in range(1, n + 1) if sum(mass[:r]) <= 0.025), default=None)
    high = min((r for r in range(1, n + 1) if sum(mass[r:]) <= 0.025), default=None)
    if low is None or high is None:
        assert interval is None
    else:
        assert interval is not None and (interval.low, interval.high) == (low, high)


def test_an_interval_covers_the_truth_as_often_as_it_says() -> None:
    random = Random(11)
    hits = 0
    for _ in range(600):
        samples = sorted(random.expovariate(1) for _ in range(100))
        interval = percentile_interval(samples, 0.9)
        assert interval is not None
        hits += interval.low <= -math.log(0.1) <= interval.high
    assert hits / 600 >= 0.93  # at least 0.95, less the simulation's own spread


def test_an_interval_of_a_large_sample_is_quick_and_sane() -> None:
    samples = [float(n) for n in range(400_000)]
    interval = percentile_interval(samples, 0.99)
    assert interval is not None
    assert interval.low < 0.99 * 400_000 < interval.high
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * math.sqrt(400_000 * 0.99 * 0.01), rel=0.02)


@given(st.integers(1, 500), st.data())
def test_wilson_covers_its_share(trials: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, trials))
    interval = wilson_interval(successes, trials)
    assert interval is not None
    assert 0 <= interval.low <= successes / trials <= interval.high <= 1


def test_wilson_against_its_paper() -> None:
    interval = wilson_interval(10, 20)
    assert interval is not None
    assert interval.low == pytest.approx(0.2993, abs=1e-4)
    assert interval.high == pytest.approx(0.7007, abs=1e-4)
    assert wilson_interval(0, 0) is None
    with pytest.raises(ValueError, match="successes"):
        wilson_interval(3, 2)


finite = st.floats(allow_nan=False, allow_infinity=False)
counters = st.none() | st.dictionaries(st.text(max_size=8), finite, max_size=3)
identities = st.none() | st.builds(
    Identity,
    model=st.text(),
    model_digest=st.text(),
    config=st.dictionaries(st.text(max_size=5), st.booleans() | st.integers() | finite | st.text(), max_size=3),
    config_digest=st.text(),
    started_at=finite,
    process_started_at=finite,
    pid=st.integers(0),
    engine=st.text(),
)
records = st.builds(
    RequestRecord,
    index=st.integers(0),
    scheduled_s=finite,
    sent_s=finite,
    outcome=st.sampled_from(["ok", "failed", "timed_out"]),
    end_s=finite,
    http_status=st.none() | st.integers(100, 599),
    error=st.text(),
    first_chunk_s=st.none() | finite,
    token_times_s=st.lists(finite, max_size=4).map(tuple),
    token_counts=st.lists(st.integers(0, 9), max_size=4).map(tuple),
    prompt_tokens=st.none() | st.integers(0),
    output_tokens=st.none() | st.integers(0),
    cached_tokens=st.none() | st.integers(0),
    token_source=st.sampled_from(["usage", "token_ids", "chunks"]),
    token_ids=st.lists(st.integers(0), max_size=4).map(tuple),
    finish_reason=st.none() | st.text(),
)
measurements = st.builds(
    Measurement,
    workload_digest=st.text(),
    spec_digest=st.text(),
    seed=st.integers(0),
    config_digest=st.text(),
    offered=st.integers(0),
    started_at=finite,
    window_s=finite,
    records=st.lists(records, max_size=3).map(tuple),
    client=st.builds(ClientHealth, finite, finite),
    extras=st.lists(st.text(), max_size=2).map(tuple),
    identity_before=identities,
    identity_after=identities,
    counters_before=counters,
    counters_after=counters,
)


@given(measurements)
@settings(max_examples=60, deadline=None)
def test_a_measurement_goes_through_json_unchanged(measured: Measurement) -> None:
    text = canonical_json(measured.to_json())
    again = Measurement.from_json(json.loads(text))
    assert again == measured
    assert canonical_json(again.to_json()) == text


def test_a_measurement_with_a_foreign_key_is_refused() -> None:
    with pytest.raises(TypeError):
        Measurement.from_json({**measurement(ok()).to_json(), "speedup": 2})


def test_a_lost_record_shows_as_a_difference() -> None:
    lost = measurement(ok(0), ok(1), offered=3)
    assert lost.offered - lost.completed - lost.failed - lost.timed_out == 1
