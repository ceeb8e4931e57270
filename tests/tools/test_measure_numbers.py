"""From raw records to numbers: latencies, goodput, stutter, tasks, slices, promises."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tools.measure import (
    METRICS,
    ClientHealth,
    Measurement,
    RequestRecord,
    Slo,
    SloMiss,
    lower_is_better,
    summarise,
    summary_intervals,
)
from tools.measure.slices import SliceKey, slices
from tools.measure.summary import tokens_per_price


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
