"""EngineMetrics: what /metrics says. vLLM's names and meanings, with `engine_` for its `vllm:`."""

from __future__ import annotations

import time
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from engine.sequence import FinishReason, Sequence

__all__ = ["EngineMetrics", "RequestTimes"]

TTFT_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160)
ITL_BUCKETS = (
    *(0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15),
    *(0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10, 20, 40, 80),
)
LATENCY_BUCKETS = (0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960)
TOKEN_BUCKETS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)


@dataclass(slots=True)
class RequestTimes:
    """When things happened to a request, in seconds on the monotonic clock."""

    arrived_s: float
    scheduled_s: float | None = None
    last_token_s: float | None = None


class EngineMetrics:
    """Counters, gauges and histograms of one engine, in a registry of its own."""

    def __init__(self, config_hash: str = "", model_digest: str = "") -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry = CollectorRegistry()
        self.running = Gauge("engine_num_requests_running", "Sequences being computed.", registry=registry)
        self.waiting = Gauge("engine_num_requests_waiting", "Requests not yet admitted.", registry=registry)
        self.kv_usage = Gauge(
            "engine_kv_cache_usage_perc",
            "Share of KV blocks in use, 0 to 1; cached ones count as free.",
            registry=registry,
        )
        self.prompt_tokens = Counter(
            "engine_prompt_tokens", "Prompt tokens of requests whose prompt has been read.", registry=registry
        )
        self.generation_tokens = Counter("engine_generation_tokens", "Tokens generated.", registry=registry)
        self.prefix_queries = Counter(
            "engine_prefix_cache_queries", "Prompt tokens looked up in the prefix cache.", registry=registry
        )
        self.prefix_hits = Counter(
            "engine_prefix_cache_hits", "Prompt tokens found in the prefix cache.", registry=registry
        )
        self.preemptions = Counter(
            "engine_num_preemptions", "Times a sequence had to give its blocks up.", registry=registry
        )
        self.success = Counter(
            "engine_request_success", "Requests that ended, by reason.", ["finished_reason"], registry=registry
        )
        for reason in ("stop", "length", "abort"):
            self.success.labels(reason)
        self.rejected = Counter("engine_requests_rejected", "Requests answered 503.", registry=registry)
        self.ttft = Histogram(
            "engine_time_to_first_token_seconds", "Arrival to first token.", registry=registry, buckets=TTFT_BUCKETS
        )
        self.itl = Histogram(
            "engine_inter_token_latency_seconds", "Between tokens of a request.", registry=registry, buckets=ITL_BUCKETS
        )
        self.e2e = Histogram(
            "engine_e2e_request_latency_seconds", "Arrival to last token.", registry=registry, buckets=LATENCY_BUCKETS
        )
        self.queue_time = Histogram(
            "engine_request_queue_time_seconds", "Arrival to admission.", registry=registry, buckets=LATENCY_BUCKETS
        )
        self.iteration_tokens = Histogram(
            "engine_iteration_tokens_total", "Tokens computed in a step.", registry=registry, buckets=TOKEN_BUCKETS
        )
        info = Gauge(
            "engine_config_info", "Always 1; the labels identify.", ["config_hash", "model_digest"], registry=registry
        )
        info.labels(config_hash, model_digest).set(1)
        self.started_at = time.time()
        started = Gauge("engine_process_start_time_seconds", "Start of the engine, Unix time.", registry=registry)
        started.set(self.started_at)

    def expose(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def admitted(self, sequence: Sequence, times: RequestTimes, now_s: float) -> None:
        """`sequence` runs for the first time. A resumed one doesn't count: it meets its own tokens in the cache."""
        times.scheduled_s = now_s
        self.queue_time.observe(now_s - times.arrived_s)
        self.prefix_queries.inc(sequence.num_prompt_tokens)
        self.prefix_hits.inc(sequence.num_cached_tokens)

    def token(self, sequence: Sequence, times: RequestTimes, now_s: float) -> None:
        """`sequence` has one more token."""
        self.generation_tokens.inc()
        if times.last_token_s is None:
            self.prompt_tokens.inc(sequence.num_prompt_tokens)
            self.ttft.observe(now_s - times.arrived_s)
        else:
            self.itl.observe(now_s - times.last_token_s)
        times.last_token_s = now_s

    def finished(self, reason: FinishReason, times: RequestTimes, now_s: float) -> None:
        """A request is over; only one that was answered whole has a latency."""
        self.success.labels(reason).inc()
        if reason != "abort":
            self.e2e.observe(now_s - times.arrived_s)
