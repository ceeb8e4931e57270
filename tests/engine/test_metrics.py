"""/metrics: the same buckets as prometheus_client's, vLLM's meanings, and cheap enough for every step."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from engine.histogram import LATENCY_BOUNDS, TOKEN_LATENCY_BOUNDS, ArrayHistogram
from engine.metric_table import HISTOGRAMS
from engine.metrics import EngineMetrics, RequestRecord, StepRecord
from engine.work import Work

Samples = dict[str, float]

seconds = st.floats(0, 5000, allow_nan=False)


def samples(metrics: EngineMetrics) -> Samples:
    """Every sample that /metrics has, by name and labels."""
    return {
        sample.name + "".join(f"{{{key}={value}}}" for key, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.expose().decode())
        for sample in family.samples
    }


def request(
    arrived_s: float = 0.0,
    queue_s: float = 0.0,
    prefill_s: float = 0.0,
    decode_s: float = 0.0,
    reason: str = "stop",
    num_output_tokens: int = 5,
) -> RequestRecord:
    scheduled_s = arrived_s + queue_s
    return RequestRecord(
        reason=reason,
        arrived_s=arrived_s,
        scheduled_s=scheduled_s,
        first_token_s=scheduled_s + prefill_s,
        last_token_s=scheduled_s + prefill_s + decode_s,
        num_prompt_tokens=40,
        num_output_tokens=num_output_tokens,
        max_tokens=64,
        num_cached_tokens=16,
        num_preemptions=2,
    )


@given(st.lists(st.lists(seconds | st.sampled_from(TOKEN_LATENCY_BOUNDS))), st.lists(seconds))
def test_buckets_are_those_of_prometheus_client(together: list[list[float]], one_by_one: list[float]) -> None:
    ours, registry = ArrayHistogram(TOKEN_LATENCY_BOUNDS), CollectorRegistry()
    theirs = Histogram("h", "h", buckets=TOKEN_LATENCY_BOUNDS, registry=registry)
    for values in together:
        ours.observe_many(np.array(values))
        for value in values:
            theirs.observe(value)
    for value in one_by_one:
        ours.observe(value)
        theirs.observe(value)
    family = next(iter(registry.collect()))
    buckets = [(s.labels["le"], s.value) for s in family.samples if s.name == "h_bucket"]
    assert ours.cumulative() == buckets
    assert ours.count == next(s.value for s in family.samples if s.name == "h_count")
    assert ours.sum == pytest.approx(next(s.value for s in family.samples if s.name == "h_sum"))


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_bounds_ascend(name: str) -> None:
    bounds = HISTOGRAMS[name][1]
    assert all(low < high for low, high in pairwise(bounds))


def test_half_a_millisecond_is_resolved_where_tokens_lie() -> None:
    fine = [bound for bound in TOKEN_LATENCY_BOUNDS if bound <= 0.02]
    assert max(b - a for a, b in pairwise(fine)) == pytest.approx(0.0005)


def test_every_bound_of_vllm_is_a_bound_here() -> None:
    """A rule that asks for le="0.25" must not return nothing."""
    ttft = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640)
    itl = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 2560)
    latency = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
    assert {*ttft, *itl} <= set(TOKEN_LATENCY_BOUNDS)
    assert set(latency) <= set(LATENCY_BOUNDS)


@given(st.lists(st.tuples(seconds, seconds, seconds, seconds), min_size=1, max_size=20))
def test_latency_is_queue_and_prefill_and_decode(times: list[tuple[float, float, float, float]]) -> None:
    metrics = EngineMetrics()
    for arrived_s, queue_s, prefill_s, decode_s in times:
        metrics.finished(request(arrived_s, queue_s, prefill_s, decode_s))
    got = samples(metrics)
    parts = [got[f"engine_request_{part}_time_seconds_sum"] for part in ("queue", "prefill", "decode")]
    assert got["engine_e2e_request_latency_seconds_sum"] == pytest.approx(sum(parts))
    assert got["engine_request_inference_time_seconds_sum"] == pytest.approx(parts[1] + parts[2])
    assert got["engine_request_time_per_output_token_seconds_sum"] == pytest.approx(parts[2] / 4)
    assert got["engine_e2e_request_latency_seconds_count"] == len(times)


def test_a_request_that_was_cut_off_counts_and_has_no_latency() -> None:
    metrics = EngineMetrics()
    for reason in ("abort", "deadline", "error"):
        metrics.finished(request(reason=reason))
    metrics.finished(request(reason="length", num_output_tokens=1))
    got = samples(metrics)
    assert [got[f"engine_request_success_total{{finished_reason={reason}}}"] for reason in ("abort", "deadline")] == [
        1,
        1,
    ]
    assert got["engine_e2e_request_latency_seconds_count"] == 1
    assert got["engine_request_prompt_tokens_sum"] == 40
    assert got["engine_request_prefill_kv_computed_tokens_sum"] == 24
    assert got["engine_request_params_max_tokens_sum"] == 64
    assert got["engine_request_num_preemptions_sum"] == 2


def test_tokens_are_counted_when_they_exist() -> None:
    metrics = EngineMetrics()
    metrics.admitted(100, 32)
    assert samples(metrics)["engine_prompt_tokens_total"] == 0
    metrics.first_tokens([0.2, 0.3], 100, 32)
    metrics.inter_token(np.array([0.011, 0.0124, 0.02]))
    metrics.generated(5)
    got = samples(metrics)
    assert got["engine_prefix_cache_queries_total"] == got["engine_prompt_tokens_total"] == 100
    assert got["engine_prefix_cache_hits_total"] == got["engine_prompt_tokens_cached_total"] == 32
    assert got["engine_prompt_tokens_by_source_total{source=local_compute}"] == 68
    assert got["engine_generation_tokens_total"] == 5
    assert got["engine_time_to_first_token_seconds_count"] == 2
    assert got["engine_inter_token_latency_seconds_bucket{le=0.011}"] == 1
    assert got["engine_inter_token_latency_seconds_bucket{le=0.0125}"] == 2


def step(start_s: float, end_s: float, graph: bool = False) -> StepRecord:
    return StepRecord(start_s, end_s, 48, 3, 4, recomputed_tokens=7, graph=graph, work=Work(2e9, 1e6, 3e9))


def test_the_gap_is_the_time_between_steps_while_there_was_work() -> None:
    metrics = EngineMetrics()
    metrics.step(step(10.0, 10.5))
    metrics.gauges(running=4, waiting=0, kv_usage=0.5)
    metrics.step(step(10.502, 11.0))
    metrics.gauges(running=0, waiting=0, kv_usage=0.0)
    metrics.step(step(60.0, 60.5, graph=True))
    metrics.gauges(running=4, waiting=0, kv_usage=0.5)
    metrics.step(step(60.5, 61.0))
    got = samples(metrics)
    assert got["engine_host_gap_seconds_count"] == 2
    assert got["engine_host_gap_seconds_sum"] == pytest.approx(0.002)
    assert got["engine_step_time_seconds_sum"] == pytest.approx(1.998)
    assert got["engine_steps_total{mode=graph}"] == 1
    assert got["engine_steps_total{mode=eager}"] == 3
    assert got["engine_iteration_tokens_total_sum"] == 4 * 51
    assert got["engine_step_prefill_tokens_sum"] == 4 * 48
    assert got["engine_step_sequences_sum"] == 16
    assert got["engine_recomputed_tokens_total"] == 28
    bytes_per_s = got["engine_estimated_read_bytes_per_gpu_total"] / got["engine_step_time_seconds_sum"]
    assert bytes_per_s == pytest.approx(8e9 / 1.998)


def test_what_waits_is_told_by_reason_and_what_is_refused_too() -> None:
    metrics = EngineMetrics()
    metrics.gauges(running=2, waiting=5, kv_usage=0.25, deferred=1)
    metrics.rejected()
    metrics.preempted(3)
    metrics.corrupted(1)
    metrics.startup("weights", 1.5)
    metrics.info("cache_config_info", block_size=16, num_gpu_blocks=2048)
    got = samples(metrics)
    assert got["engine_num_requests_waiting"] == 5
    assert got["engine_num_requests_waiting_by_reason{reason=capacity}"] == 4
    assert got["engine_kv_cache_usage_perc"] == 0.25
    assert got["engine_requests_rejected_total"] == 1
    assert got["engine_admission_rejections_total{reason=max_num_queued_reqs}"] == 1
    assert got["engine_num_preemptions_total"] == 3
    assert got["engine_corrupted_requests_total"] == 1
    assert got["engine_startup_seconds{phase=weights}"] == 1.5
    assert got["engine_cache_config_info{block_size=16}{num_gpu_blocks=2048}"] == 1


calls = st.sampled_from(["step", "first", "inter", "finished", "admitted", "preempted", "idle"])


@given(st.lists(calls, max_size=30))
def test_counters_never_go_down(sequence: list[str]) -> None:
    metrics = EngineMetrics()
    before = samples(metrics)
    for index, call in enumerate(sequence):
        if call == "step":
            metrics.step(step(index, index + 0.5))
        elif call == "first":
            metrics.first_tokens([0.1 * index], 10, 3)
        elif call == "inter":
            metrics.inter_token(np.full(index, 0.01))
        elif call == "finished":
            metrics.finished(request(reason=("stop", "abort")[index % 2]))
        elif call == "admitted":
            metrics.admitted(10, 3)
        elif call == "preempted":
            metrics.preempted(index)
        else:
            metrics.gauges(running=0, waiting=0, kv_usage=0.0)
        after = samples(metrics)
        growing = ("_total", "_bucket", "_count", "_sum")
        assert all(after[name] >= value for name, value in before.items() if name.split("{")[0].endswith(growing))
        before = after


def test_a_scrape_while_the_engine_works_sees_whole_observations() -> None:
    """Sum and buckets of a histogram belong together, whichever thread reads."""
    metrics, done = EngineMetrics(), threading.Event()

    def work() -> None:
        while not done.is_set():
            metrics.inter_token([0.25] * 64)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(50):
            got = samples(metrics)
            count = got["engine_inter_token_latency_seconds_count"]
            assert got["engine_inter_token_latency_seconds_sum"] == count / 4
            assert count % 64 == 0
    finally:
        done.set()
        thread.join()


def test_a_step_of_256_sequences_costs_a_fraction_of_a_millisecond() -> None:
    metrics, gaps = EngineMetrics(), np.random.default_rng(0).uniform(0, 0.05, 256)
    spent = []
    for index in range(300):
        started = time.perf_counter()
        metrics.step(step(index, index + 0.5))
        metrics.inter_token(gaps)
        metrics.generated(256)
        metrics.gauges(running=256, waiting=0, kv_usage=0.5)
        spent.append(time.perf_counter() - started)
    assert sorted(spent)[len(spent) // 2] < 0.0003


def test_the_text_is_what_prometheus_reads() -> None:
    metrics = EngineMetrics("hash", "digest")
    metrics.finished(request())
    text = metrics.expose().decode()
    assert 'engine_config_info{config_hash="hash",model_digest="digest"} 1.0' in text
    assert "_created" not in text
    histogram = next(f for f in text_string_to_metric_families(text) if f.name == "engine_time_to_first_token_seconds")
    assert histogram.type == "histogram"
    assert histogram.samples[0].labels["le"] == "0.0005"
    names = [family.name for family in text_string_to_metric_families(text)]
    assert len(names) == len(set(names))
    assert generate_latest(metrics._registry)
