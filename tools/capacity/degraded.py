"""Degraded: what becomes of the promise while replicas are missing, and how much traffic to turn away to keep it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tools.capacity.least import at_size, most_rate
from tools.capacity.question import Question

__all__ = ["Degraded", "degraded_mode"]


@dataclass(frozen=True)
class Degraded:
    """A fleet that lacks `missing` replicas at the peak."""

    missing: int
    replicas: int
    holds: bool
    stable: bool
    "Whether the work gets done at all; if not, every latency grows for as long as it lasts."
    values_ms: Mapping[str, float]
    "The promise's metrics if everything is let in; of an unstable fleet, empty: they have no value."
    shed_share: float
    "Share of the traffic to turn away so that the rest is served as promised."
    kept_rps: float

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {"values_ms": dict(self.values_ms)}


def degraded_mode(
    question: Question, replicas: int, rate_rps: float, missing_counts: Iterable[int]
) -> tuple[Degraded, ...]:
    """The fleet of `replicas` at `rate_rps`, with so many of them gone each time; never all."""
    rows = []
    for missing in missing_counts:
        if missing >= replicas:
            break
        left = replicas - missing
        stable = left >= question.least_stable(rate_rps)
        found = at_size(question, left, rate_rps) if stable else None
        holds = found is not None and found.holds
        kept_rps = rate_rps if holds else most_rate(question, left, below_rps=rate_rps)
        values = found.values_ms if found is not None else {}
        rows.append(Degraded(missing, left, holds, stable, values, 1 - kept_rps / rate_rps, kept_rps))
    return tuple(rows)
