"""Cells: the recorded figures that a claim may rest on. All are the harness's own; none was said by a proposer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from tools.measure.summary import METRICS
from verifiers.claims.metric_words import Named
from verifiers.claims.parse import claims_in
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.looking import blocks_of
from verifiers.statistics.blocked import blocked_ratio

__all__ = ["Cell", "cells_of"]

_SHARES = ("slo_attainment", "prefix_hit_rate", "stutter_share")
_RATES = ("request_throughput", "output_throughput", "total_token_throughput", "request_goodput")
_SUFFIXES = {
    "_bytes_per_s": "B/s",
    "_flops": "FLOP/s",
    "_ms": "ms",
    "_s": "s",
    "_rps": "/s",
    "_throughput": "/s",
    "_bytes": "B",
}
_RECORDED = ("calibrate", "client", "budget", "survey", "plan")
"""Keys of entries whose numbers the harness measured or fixed."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One recorded figure."""

    value: float
    unit: str
    "As in `Claim`; `ratio` for candidate / baseline, which a percentage and a factor may both be made of."
    metrics: tuple[str, ...] = ()
    "Flat names of what it is a figure of; empty where it is of no metric."


def cells_of(evidence: Evidence) -> tuple[Cell, ...]:
    """Every figure that prose about this run may rest on."""
    return (*_measured(evidence), *_ratios(evidence), *_promised(evidence), *_recorded(evidence))


def _measured(evidence: Evidence) -> Iterator[Cell]:
    for trial in _trials(evidence):
        for metric, value in trial.summary.items():
            yield from _of_metric(metric, value)
        yield Cell(trial.ready_s, "s")


def _of_metric(metric: str, value: float) -> Iterator[Cell]:
    yield Cell(value, _unit(metric), (metric,))
    if metric in _SHARES:
        yield Cell(100 * value, "%", (metric,))


def _unit(metric: str) -> str:
    return "ms" if metric.endswith("_ms") else "s" if metric == "duration" else "/s" if metric in _RATES else ""


def _ratios(evidence: Evidence) -> Iterator[Cell]:
    """Candidate over baseline: of the confirmation as a whole and by medians, and of each trial of the search."""
    baselines = [trial for trial in evidence.search if trial.role == "baseline"]
    for metric in METRICS:
        if blocks := blocks_of(evidence.confirmation, metric):
            yield Cell(blocked_ratio(blocks), "ratio", (metric,))
        one, other = evidence.values("A", metric), evidence.values("B", metric)
        if one and other and min(*one, *other) > 0:
            yield Cell(median(other) / median(one), "ratio", (metric,))
        standing = [value for trial in baselines if (value := trial.summary.get(metric))]
        for trial in evidence.search:
            if trial.role == "search" and standing and (value := trial.summary.get(metric)):
                yield Cell(value / fmean(standing), "ratio", (metric,))
        if len(standing) > 1:
            yield Cell(100 * (max(standing) - min(standing)) / fmean(standing), "%", (metric,))


def _promised(evidence: Evidence) -> Iterator[Cell]:
    """What the owner's file and the plan say."""
    deployment = evidence.deployment
    for metric, bound in deployment.slo.bounds().items():
        yield from _of_metric(metric, bound)
    yield Cell(100 * deployment.objective.min_effect, "%", (deployment.objective.metric,))
    yield Cell(100 * deployment.acceptance.alpha, "%")
    for rail in deployment.guardrails:
        yield Cell(100 * rail.max_regression, "%", (rail.metric,))
    for name, floor in evidence.floors_ms.items():
        yield Cell(floor, "ms", tuple(m for m in METRICS if m.endswith(f"_{name}")))
    yield from _numbers(deployment.workload.model_dump(mode="json"))
    yield Cell(evidence.memory_bytes, "B")
    if evidence.memory_need_bytes is not None:
        yield Cell(evidence.memory_need_bytes, "B")


def _recorded(evidence: Evidence) -> Iterator[Cell]:
    for entry in evidence.entries:
        if entry.key in _RECORDED:
            yield from _numbers(entry.data)
        elif entry.key == "verdict":
            yield from _said(verdict["sentence"] for verdict in entry.data["verdicts"])
        elif entry.key == "finalist":
            yield from _said([entry.data["why"]])


def _said(sentences: Iterable[str]) -> Iterator[Cell]:
    """The verifiers' own figures: a sentence derives them from the records, and is derived anew by `verify`."""
    for sentence in sentences:
        for claim in claims_in(sentence):
            yield Cell(claim.value, claim.unit, _named(claim.metric))


def _named(metric: Named | None) -> tuple[str, ...]:
    return () if metric is None else tuple(name for name in METRICS if metric.means(name))


def _numbers(value: Any, name: str = "") -> Iterator[Cell]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _numbers(item, str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        unit = next((unit for suffix, unit in _SUFFIXES.items() if name.endswith(suffix)), "")
        yield Cell(value, unit)


def _trials(evidence: Evidence) -> tuple[TrialEvidence, ...]:
    return (*evidence.search, *evidence.confirmation, *evidence.extra)
