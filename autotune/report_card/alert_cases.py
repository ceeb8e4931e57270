"""Alert cases: burn-rate rules, sound ones and ones that can't fire or read what isn't there, drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from agents.assessment import AlertView, Reason

__all__ = ["ALERT_CASES", "alert_case"]

Case = tuple[AlertView, Reason]

_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_EXPORTED = (
    "engine_e2e_request_latency_seconds",
    "engine_generation_tokens_total",
    "engine_inter_token_latency_seconds",
    "engine_kv_cache_usage_perc",
    "engine_num_requests_running",
    "engine_num_requests_waiting",
    "engine_prompt_tokens_total",
    "engine_request_success_total",
    "engine_time_to_first_token_seconds",
)
_HISTOGRAMS = tuple(name for name in _EXPORTED if name.endswith("_seconds"))
_PAIRS = ((3600.0, 300.0, 14.4), (21600.0, 1800.0, 6.0), (259200.0, 21600.0, 1.0))
"Long window, short window and burn factor, as the SRE workbook (chapter 5) recommends them."


def _rule(random: Random) -> AlertView:
    """A sound rule."""
    long_s, short_s, factor = random.choice(_PAIRS)
    return AlertView(
        metric=random.choice(_HISTOGRAMS),
        bound_s=random.choice(_BUCKETS_S[2:-1]),
        objective=random.choice((0.99, 0.995, 0.999)),
        burn_factor=factor,
        long_window_s=long_s,
        short_window_s=short_s,
        for_s=random.choice((0.0, 60.0, 120.0)),
        scrape_interval_s=random.choice((5.0, 15.0, 30.0)),
        exported=_EXPORTED,
        buckets_s=_BUCKETS_S,
        requests_per_s=round(random.uniform(2, 40), 1),
    )


def _sound(random: Random) -> Case:
    return _rule(random), "sound"


def _sound_loose(random: Random) -> Case:
    """A modest objective whose factor is small enough: 14.4 x 5 % is still below everything."""
    return replace(_rule(random), objective=0.95, burn_factor=14.4), "sound"


def _sound_slow_scrape(random: Random) -> Case:
    return replace(_rule(random), scrape_interval_s=60.0, short_window_s=300.0), "sound"


def _more_than_all(random: Random) -> Case:
    """The factor times what the objective allows is more than every request."""
    objective = random.choice((0.9, 0.92, 0.93))
    return replace(_rule(random), objective=objective, burn_factor=14.4), "cannot_fire"


def _exactly_all(random: Random) -> Case:
    return replace(_rule(random), objective=0.75, burn_factor=random.choice((4.0, 6.0))), "cannot_fire"


def _no_such_bucket(random: Random) -> Case:
    bound = random.choice((0.2, 0.3, 0.75, 1.5, 3.0))
    return replace(_rule(random), bound_s=bound), "cannot_fire"


def _beyond_the_buckets(random: Random) -> Case:
    return replace(_rule(random), bound_s=random.choice((20.0, 30.0))), "cannot_fire"


def _one_scrape(random: Random) -> Case:
    return replace(_rule(random), short_window_s=60.0, scrape_interval_s=60.0), "cannot_fire"


def _misspelt(random: Random) -> Case:
    view = _rule(random)
    wrong = random.choice((view.metric.replace("_seconds", "_s"), view.metric.replace("engine_", "vllm:")))
    return replace(view, metric=wrong), "metric_missing"


def _not_exported(random: Random) -> Case:
    view = _rule(random)
    return replace(view, exported=tuple(name for name in _EXPORTED if name != view.metric)), "metric_missing"


ALERT_CASES: Mapping[str, Callable[[Random], Case]] = {
    "m01": _sound,
    "m02": _misspelt,
    "m03": _more_than_all,
    "m04": _sound_slow_scrape,
    "m05": _no_such_bucket,
    "m06": _sound_loose,
    "m07": _not_exported,
    "m08": _exactly_all,
    "m09": _one_scrape,
    "m10": _beyond_the_buckets,
}


def alert_case(name: str, seed: int) -> Case:
    """The case `name` with the figures that `seed` gives it, and the right answer."""
    return ALERT_CASES[name](Random(f"{seed}/{name}"))
