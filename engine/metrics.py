"""EngineMetrics: what /metrics says. vLLM's names and meanings, with `engine_` for its `vllm:`, and some of our own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

from numpy.typing import ArrayLike
from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.histogram import ArrayHistogram
from engine.metric_table import COUNTERS, GAUGES, HISTOGRAMS, LABELLED_COUNTERS
from engine.work import NO_WORK, Work

__all__ = ["EngineMetrics", "RequestRecord", "StepRecord"]


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One computed step; times in seconds on the monotonic clock, of the computation alone."""

    start_s: float
    end_s: float
    num_prefill_tokens: int
    num_decode_tokens: int
    num_sequences: int
    recomputed_tokens: int = 0
    graph: bool = False
    work: Work = NO_WORK


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request that is over; times in seconds on the monotonic clock, 0 for what never happened."""

    reason: str
    arrived_s: float
    scheduled_s: float
    first_token_s: float
    last_token_s: float
    num_prompt_tokens: int
    num_output_tokens: int
    max_tokens: int
    num_cached_tokens: int = 0
    num_preemptions: int = 0


class EngineMetrics(Collector):
    """Plain numbers that the engine's thread writes; any thread may `expose` them.

    What a step calls takes whole arrays: at 256 sequences the bookkeeping of a step has to stay under a millisecond.
    """

    def __init__(self, config_hash: str = "", model_digest: str = "") -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.started_at = time.time()
        self._lock = Lock()
        self._counters: dict[str, float] = dict.fromkeys(COUNTERS, 0)
        self._labelled = {name: dict.fromkeys(values, 0) for name, (_, _, values) in LABELLED_COUNTERS.items()}
        self._gauges: dict[str, float] = dict.fromkeys(GAUGES, 0)
        self._num_deferred = 0
        self._histograms = {name: ArrayHistogram(bounds) for name, (_, bounds) in HISTOGRAMS.items()}
        self._infos: dict[str, dict[str, str]] = {}
        self._startup_s: dict[str, float] = {}
        self._device_free_s: float | None = None
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(namespace="engine", registry=self._registry)
        self.info("config_info", config_hash=config_hash, model_digest=model_digest)

    def expose(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def info(self, name: str, **labels: object) -> None:
        """A gauge that is always 1 and tells by its labels: `config_info`, `cache_config_info`."""
        with self._lock:
            self._infos[name] = {label: str(value) for label, value in labels.items()}

    def startup(self, phase: str, seconds: float) -> None:
        """How long a phase of the start took: import, weights, cache, kernels, warmup, total."""
        with self._lock:
            self._startup_s[phase] = seconds

    def admitted(self, prompt_tokens: int, cached_tokens: int) -> None:
        """Requests run for the first time. Resumed ones don't count: they meet their own tokens in the cache."""
        with self._lock:
            self._counters["prefix_cache_queries"] += prompt_tokens
            self._counters["prefix_cache_hits"] += cached_tokens

    def preempted(self, count: int) -> None:
        with self._lock:
            self._counters["num_preemptions"] += count

    def corrupted(self, count: int) -> None:
        with self._lock:
            self._counters["corrupted_requests"] += count

    def rejected(self, reason: str = "max_num_queued_reqs") -> None:
        with self._lock:
            self._counters["requests_rejected"] += 1
            self._labelled["admission_rejections"][reason] += 1

    def step(self, step: StepRecord) -> None:
        """A step has been computed. Call in the order of computation."""
        histograms, counters = self._histograms, self._counters
        with self._lock:
            histograms["step_time_seconds"].observe(step.end_s - step.start_s)
            if self._device_free_s is not None:
                histograms["host_gap_seconds"].observe(max(0.0, step.start_s - self._device_free_s))
            self._device_free_s = step.end_s
            histograms["iteration_tokens_total"].observe(step.num_prefill_tokens + step.num_decode_tokens)
            histograms["step_prefill_tokens"].observe(step.num_prefill_tokens)
            histograms["step_decode_tokens"].observe(step.num_decode_tokens)
            histograms["step_sequences"].observe(step.num_sequences)
            self._labelled["steps"]["graph" if step.graph else "eager"] += 1
            counters["recomputed_tokens"] += step.recomputed_tokens
            counters["estimated_flops_per_gpu"] += step.work.flops
            counters["estimated_read_bytes_per_gpu"] += step.work.read_bytes
            counters["estimated_write_bytes_per_gpu"] += step.work.write_bytes

    def first_tokens(self, latencies_s: ArrayLike, prompt_tokens: int, cached_tokens: int) -> None:
        """Requests have their first token; the counts are sums over them. Count the tokens in `generated` too."""
        with self._lock:
            self._histograms["time_to_first_token_seconds"].observe_many(latencies_s)
            self._counters["prompt_tokens"] += prompt_tokens
            self._counters["prompt_tokens_cached"] += cached_tokens
            self._labelled["prompt_tokens_by_source"]["local_cache_hit"] += cached_tokens
            self._labelled["prompt_tokens_by_source"]["local_compute"] += prompt_tokens - cached_tokens

    def inter_token(self, gaps_s: ArrayLike) -> None:
        """Requests have one more token each, so long after the one before."""
        with self._lock:
            self._histograms["inter_token_latency_seconds"].observe_many(gaps_s)

    def generated(self, count: int) -> None:
        with self._lock:
            self._counters["generation_tokens"] += count

    def gauges(self, *, running: int, waiting: int, kv_usage: float, deferred: int = 0) -> None:
        """The state after a step. `deferred`: those of `waiting` that couldn't run yet if there were room."""
        with self._lock:
            self._gauges.update(
                num_requests_running=running, num_requests_waiting=waiting, kv_cache_usage_perc=kv_usage
            )
            self._num_deferred = deferred
            if not running and not waiting:
                self._device_free_s = None

    def finished(self, request: RequestRecord) -> None:
        """A request is over; only one that was answered whole has latencies and lengths."""
        with self._lock:
            self._labelled["request_success"][request.reason] += 1
            if request.reason not in ("stop", "length"):
                return
            decode_s = request.last_token_s - request.first_token_s
            observed = {
                "e2e_request_latency_seconds": request.last_token_s - request.arrived_s,
                "request_queue_time_seconds": request.scheduled_s - request.arrived_s,
                "request_prefill_time_seconds": request.first_token_s - request.scheduled_s,
                "request_decode_time_seconds": decode_s,
                "request_inference_time_seconds": request.last_token_s - request.scheduled_s,
                "request_time_per_output_token_seconds": decode_s / max(1, request.num_output_tokens - 1),
                "request_prompt_tokens": request.num_prompt_tokens,
                "request_generation_tokens": request.num_output_tokens,
                "request_params_max_tokens": request.max_tokens,
                "request_prefill_kv_computed_tokens": request.num_prompt_tokens - request.num_cached_tokens,
                "request_num_preemptions": request.num_preemptions,
            }
            for name, value in observed.items():
                self._histograms[name].observe(value)

    def collect(self) -> Iterator[Metric]:
        """For prometheus_client: the families as they stand now."""
        with self._lock:
            families = list(self._families())
        yield from families

    def _families(self) -> Iterator[Metric]:
        for name, text in GAUGES.items():
            yield GaugeMetricFamily(f"engine_{name}", text, self._gauges[name])
        reasons = GaugeMetricFamily(
            "engine_num_requests_waiting_by_reason",
            "capacity: no seat or no block is free; deferred: could not run yet if there were.",
            labels=["reason"],
        )
        reasons.add_metric(["capacity"], self._gauges["num_requests_waiting"] - self._num_deferred)
        reasons.add_metric(["deferred"], self._num_deferred)
        yield reasons
        for name, text in COUNTERS.items():
            yield CounterMetricFamily(f"engine_{name}", text, self._counters[name])
        for name, (text, label, _) in LABELLED_COUNTERS.items():
            counter = CounterMetricFamily(f"engine_{name}", text, labels=[label])
            for value, count in self._labelled[name].items():
                counter.add_metric([value], count)
            yield counter
        for name, (text, _) in HISTOGRAMS.items():
            histogram = self._histograms[name]
            yield HistogramMetricFamily(f"engine_{name}", text, histogram.cumulative(), histogram.sum)
        for name, labels in self._infos.items():
            info = GaugeMetricFamily(f"engine_{name}", "Always 1; the labels identify.", labels=list(labels))
            info.add_metric(list(labels.values()), 1)
            yield info
        startup = GaugeMetricFamily("engine_startup_seconds", "Seconds of the start, by phase.", labels=["phase"])
        for phase, seconds in self._startup_s.items():
            startup.add_metric([phase], seconds)
        yield startup
