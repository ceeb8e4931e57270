"""Assessment: whether a finished benchmark, or an alert rule, can be trusted. What is seen, and what may be said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, get_args

from agents.proposer import Usage

__all__ = [
    "ALERT_REASONS",
    "BENCHMARK_REASONS",
    "AlertView",
    "AssessView",
    "Assessed",
    "Assessment",
    "Assessor",
    "BenchmarkView",
    "Reason",
    "reasons_for",
]

Reason = Literal[
    "sound", "client_bound", "warm_cache", "wrong_target", "too_short", "cannot_fire", "metric_missing", "none"
]
"""`none` is no answer: what a proposer that failed is recorded with."""

BENCHMARK_REASONS: Mapping[Reason, str] = {
    "sound": "the numbers are the server's and can be used",
    "client_bound": "the load generator was the limit, so the latencies are partly its own",
    "warm_cache": "more of the prompts came from the prefix cache than requests of this load share",
    "wrong_target": "what answered isn't the model, the process or the config that was to be measured",
    "too_short": "too few requests for the percentile that is promised",
}
ALERT_REASONS: Mapping[Reason, str] = {
    "sound": "the rule can fire when the promise is broken",
    "cannot_fire": "its metric is there, but no value that it can take ever meets the rule's condition",
    "metric_missing": "the metric that it reads isn't exported",
}


@dataclass(frozen=True, slots=True)
class BenchmarkView:
    """A finished benchmark in figures, as its report has them."""

    promised: Mapping[str, float]
    "Upper bound in ms by metric, such as `p95_ttft_ms`."
    measured: Mapping[str, float]
    requests: int
    completed: int
    failed: int
    window_s: float
    offered_rps: float
    late_share: float
    "Of the requests, sent later than 10 ms (or a tenth of the median time to first token) after they were due."
    send_lag_p99_ms: float
    client_cpu_share: float
    "Of one core, by the busiest process of the load generator."
    chunks_per_s: float
    max_chunks_per_s: float
    "That this load generator can read, measured against a server that computes nothing."
    prefix_hit_rate: float | None
    sharing_bound: float | None
    "The highest hit rate that an emptied cache can reach on this load."
    model_asked: str
    model_served: str
    config_differences: Mapping[str, tuple[Any, Any]]
    "Knobs that the server ran with otherwise than asked: (asked, served)."
    same_process: bool
    "Whether one process answered before and after the load."


@dataclass(frozen=True, slots=True)
class AlertView:
    """A burn-rate alert on a latency histogram, and what the server exports.

    It fires when, over both windows, the share of requests above `bound_s` exceeds `burn_factor` times what the
    objective allows, and has done so for `for_s`.
    """

    metric: str
    "Histogram of seconds."
    bound_s: float
    objective: float
    "Share of requests that are promised to lie at or below the bound: 0.99 allows 1 % above."
    burn_factor: float
    long_window_s: float
    short_window_s: float
    for_s: float
    scrape_interval_s: float
    exported: tuple[str, ...]
    "Names of the metrics that the server exports."
    buckets_s: tuple[float, ...]
    "Upper ends of the histogram's finite buckets."
    requests_per_s: float


AssessView = BenchmarkView | AlertView


@dataclass(frozen=True, slots=True)
class Assessment:
    """The answer. `valid` goes with the reason `sound` and with no other."""

    valid: bool
    reason: Reason
    why: str

    def __post_init__(self) -> None:
        if self.reason not in get_args(Reason) or self.valid != (self.reason == "sound"):
            raise ValueError(f"expected valid exactly with the reason sound, found {self.valid} with {self.reason!r}")

    @classmethod
    def of(cls, reason: Reason, why: str) -> Assessment:
        return cls(reason == "sound", reason, why)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Assessed:
    """An assessment, what it cost, and why there is none where the assessor failed."""

    assessment: Assessment
    usage: Usage = field(default_factory=Usage)
    failure: str = ""


class Assessor(Protocol):
    """Looks at one case and answers. Keeps no memory."""

    @property
    def name(self) -> str: ...

    def assess(self, view: AssessView) -> Assessed: ...


def reasons_for(view: AssessView) -> Mapping[Reason, str]:
    """What may be answered about `view`, each with its meaning."""
    return BENCHMARK_REASONS if isinstance(view, BenchmarkView) else ALERT_REASONS
