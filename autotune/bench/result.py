"""Bench: what was measured, one trial or several, with all that is to be said against it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tools.measure import Interval, Measurement, Slo, Workload, lower_is_better, summarise, summary_intervals
from tools.measure.doubts import Doubt, doubts
from tools.measure.floor import Floor
from tools.measure.replicates import Replicated, across
from tools.measure.resolve import Plan
from tools.measure.slices import SliceKey, slices
from tools.measure.summary import tokens_per_price

__all__ = ["Bench", "BenchTrial"]


@dataclass(frozen=True)
class BenchTrial:
    """One load on one server."""

    workload: Workload
    measurement: Measurement
    slo: Slo
    floor: Floor | None

    @cached_property
    def summary(self) -> dict[str, float]:
        return summarise(self.measurement, self.slo)

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """Within this one load."""
        return summary_intervals(self.measurement, self.slo)

    @cached_property
    def doubts(self) -> tuple[Doubt, ...]:
        return doubts(self.measurement, self.workload, self.floor, self.slo)

    @property
    def valid(self) -> bool:
        return not any(doubt.invalid for doubt in self.doubts)

    def slices(self) -> dict[str, list[dict[str, Any]]]:
        """The same numbers for parts of the load: over time, by prompt length, and by turn where there are turns."""
        keys: list[SliceKey] = ["time", "prompt"]
        if any(record.turn for record in self.measurement.records):
            keys.append("turn")
        return {key: [_row(part) for part in slices(self.measurement, key, slo=self.slo)] for key in keys}

    def to_json(self) -> dict[str, Any]:
        """vLLM's flat JSON, plus intervals, doubts, slices and the client's own health."""
        m = self.measurement
        warm_up = next((doubt for doubt in self.doubts if doubt.name == "warm_up"), None)
        return {
            **self.summary,
            "intervals": {name: [i.low, i.high] for name, i in self.intervals.items()},
            "valid": self.valid,
            "doubts": [doubt.to_json() for doubt in self.doubts],
            "slo": self.slo.bounds(),
            "misses": [str(miss) for miss in self.slo.misses(self.summary)],
            "slices": self.slices(),
            "warm_up_s": self._due_s(int(warm_up.evidence["drop_requests"])) if warm_up else None,
            "workload_digest": m.workload_digest,
            "seed": m.seed,
            "extras": list(m.extras),
            "client": m.client.to_json(),
            "errors": sorted({record.error for record in m.records if record.error}),
        }

    def _due_s(self, place: int) -> float:
        return sorted(record.scheduled_s for record in self.measurement.records)[place]


@dataclass(frozen=True)
class Bench:
    """All trials of one subject."""

    target: str
    metric: str
    "What the work is judged by."
    trials: tuple[BenchTrial, ...]
    floor: Floor | None = None
    plan: Plan | None = None
    "What these trials resolve, where that was asked."
    price_per_hour: float | None = None
    ended_early: str = ""
    "Why there are fewer trials than were asked for."

    @property
    def valid(self) -> bool:
        return all(trial.valid for trial in self.trials)

    @property
    def interrupted(self) -> bool:
        """Whether its user ended it."""
        return self.ended_early == "interrupted"

    @cached_property
    def counted(self) -> tuple[BenchTrial, ...]:
        """The trials whose numbers count: whole and valid ones; where there is none, the best there is."""
        whole = [trial for trial in self.trials if not trial.measurement.cut_short] or list(self.trials)
        return tuple([trial for trial in whole if trial.valid] or whole)

    @cached_property
    def replicated(self) -> dict[str, Replicated]:
        """Over the trials that count."""
        return across([trial.summary for trial in self.counted])

    @cached_property
    def shown(self) -> BenchTrial:
        """The trial that stands for all in pictures: of those that count the middle one by the metric."""
        worst = math.inf if lower_is_better(self.metric) else -math.inf
        ranked = sorted(self.counted, key=lambda trial: trial.summary.get(self.metric, worst))
        return ranked[(len(ranked) - 1) // 2]

    def tokens_per_price(self) -> dict[str, float]:
        """Millions of tokens per currency unit; empty where no price was named."""
        if self.price_per_hour is None:
            return {}
        means = {name: found.mean for name, found in self.replicated.items()}
        return tokens_per_price(means, self.price_per_hour)

    def to_json(self) -> dict[str, Any]:
        """Of one trial its own flat numbers, with intervals within it; of several their means, with intervals between
        them, and every trial under `trials`."""
        shown = self.shown.to_json()
        common = {
            "target": self.target,
            "metric": self.metric,
            "valid": self.valid,
            "interrupted": self.interrupted,
            "ended_early": self.ended_early,
            "floor": self.floor.to_json() if self.floor is not None else None,
            **self.tokens_per_price(),
        }
        if len(self.trials) == 1:
            return {**shown, **common}
        between = {name: [found.low, found.high] for name, found in self.replicated.items() if found.low is not None}
        return {
            **{name: found.mean for name, found in self.replicated.items()},
            **common,
            "intervals": between,
            "slo": shown["slo"],
            "resolve": self.plan.to_json() if self.plan is not None else None,
            "trials": [trial.to_json() for trial in self.trials],
        }

    def page_json(self) -> Mapping[str, Any]:
        """What `autotune.pages.bench_page` takes: the shown trial."""
        return {**self.shown.to_json(), "target": self.target, **self.tokens_per_price()}


def _row(part: Any) -> dict[str, Any]:
    digits = 1 if part.by == "time" else 0
    span = f"{part.low:.{digits}f} to {part.high:.{digits}f}" if part.high > part.low else f"{part.low:.{digits}f}"
    unit = {"time": " s", "turn": "", "prompt": " tokens"}[part.by]
    shown = ("p50_ttft_ms", "p95_ttft_ms", "p50_tpot_ms", "p95_itl_ms", "p95_e2el_ms", "request_throughput", "failed")
    return {
        part.by: span + unit,
        "requests": part.requests,
        **{name: part.summary[name] for name in shown if name in part.summary},
    }
