"""AssessExpert: the arithmetic that a careful engineer does before believing a benchmark or an alert."""

from __future__ import annotations

import math

from agents.assessment import AlertView, Assessed, Assessment, AssessView, BenchmarkView

__all__ = ["AssessExpert"]

_MOST_LATE = 0.05
_BUSY_CORE = 0.9
_BUSY_CHUNKS = 0.8
_HIT_SLACK = 0.02
_CONFIDENCE_TAIL = 0.025
_RATE_SAMPLES = 2
"Samples that a rate over a window needs."


class AssessExpert:
    """Rules in order: a wrong target makes everything else meaningless, then the client, the cache, the size."""

    @property
    def name(self) -> str:
        return "expert"

    def assess(self, view: AssessView) -> Assessed:
        return Assessed(_benchmark(view) if isinstance(view, BenchmarkView) else _alert(view))


def _benchmark(view: BenchmarkView) -> Assessment:
    if view.model_served != view.model_asked:
        return Assessment.of("wrong_target", f"{view.model_served} answered for {view.model_asked}")
    if view.config_differences:
        return Assessment.of("wrong_target", f"served otherwise than asked: {', '.join(view.config_differences)}")
    if not view.same_process:
        return Assessment.of("wrong_target", "the server was replaced while it was measured")
    if view.late_share > _MOST_LATE:
        return Assessment.of("client_bound", f"{view.late_share:.0%} of the requests were sent late")
    if view.client_cpu_share > _BUSY_CORE:
        return Assessment.of("client_bound", f"the client used {view.client_cpu_share:.0%} of a core")
    if view.chunks_per_s > _BUSY_CHUNKS * view.max_chunks_per_s:
        return Assessment.of("client_bound", "as many chunks came as the client can read")
    if view.prefix_hit_rate is not None and view.sharing_bound is not None:
        over = view.prefix_hit_rate - view.sharing_bound
        if over > _HIT_SLACK:
            return Assessment.of("warm_cache", f"hit rate {over:.1%} above what the load shares")
    if (needed := max(map(_needed, view.promised), default=0)) > view.requests:
        return Assessment.of("too_short", f"{view.requests} requests, and {needed} are needed")
    return Assessment.of("sound", "target, client, cache and size are in order")


def _needed(metric: str) -> int:
    """Requests from which a percentile has a two-sided 95 % interval: share ** n <= 0.025; 1 where it is none."""
    percentile = metric.partition("_")[0].removeprefix("p")
    if not percentile.isdigit():
        return 1
    return math.ceil(math.log(_CONFIDENCE_TAIL) / math.log(int(percentile) / 100))


def _alert(view: AlertView) -> Assessment:
    if view.metric not in view.exported:
        return Assessment.of("metric_missing", f"{view.metric} isn't exported")
    share = view.burn_factor * (1 - view.objective)
    if share >= 1:
        return Assessment.of("cannot_fire", f"it waits for more than {share:.0%} of the requests to be slow")
    if view.bound_s not in view.buckets_s:
        return Assessment.of("cannot_fire", f"the histogram has no bucket that ends at {view.bound_s:g} s")
    if view.short_window_s < _RATE_SAMPLES * view.scrape_interval_s:
        return Assessment.of("cannot_fire", "the short window holds less than two scrapes, so it has no rate")
    return Assessment.of("sound", f"it fires when more than {share:.1%} of the requests are slow")
