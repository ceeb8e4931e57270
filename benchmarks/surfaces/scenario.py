"""Scenario: what is sent to an engine and what its answer is worth. InferenceBench's four, scaled to one CPU core.

| here | there | in / out tokens there | in / out words here | requests here | score |
|---|---|---|---|---|---|
| input | A, input-heavy | 8192 / 1024 | 320 / 4 | 3, one at a time | 1 / TTFT |
| output | B, output-heavy | 1024 / 8192 | 24 / 40 | 2, one at a time | 1 / TPOT |
| load | C, high load | 1024 / 1024 | 80 / 14 | a burst, Poisson and constant arrivals | requests/s |
| general | D, general | 4096 / 2048 | 180 / 16 | 8, four at a time | of all three |

Lengths are uniform in [0.8 L, L], as there. Where a scenario has several figures or loads, its score is their geometric
mean. Half of each prompt (a third under high load's) is a prefix that all requests share, so that caching is a choice
that matters; a launch serves all loads one after the other, with an empty cache before each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.measure.workload import WorkloadSpec

__all__ = ["LOADS", "SCENARIOS", "Scenario", "scenario"]


@dataclass(frozen=True)
class Scenario:
    """Loads, and the figures of each that make up the score."""

    name: str
    loads: tuple[str, ...]
    "Names of LOADS."
    figures: tuple[str, ...]
    "Metric names: milliseconds count as 1000 / value, rates as they are."

    def score(self, metrics: Mapping[str, Mapping[str, float]]) -> float:
        """The geometric mean of this scenario's figures in `metrics` (by load, then by metric); higher is better.

        Raises:
            KeyError: a load or a metric that wasn't measured.
        """
        values = [_worth(figure, metrics[load][figure]) for load in self.loads for figure in self.figures]
        return math.exp(math.fsum(map(math.log, values)) / len(values))


def _worth(figure: str, value: float) -> float:
    return 1000.0 / value if figure.endswith("_ms") else value


def _span(longest: int) -> dict[str, int]:
    """Uniform in [0.8 L, L]."""
    return {"min": round(0.8 * longest), "max": longest}


def _load(requests: int, shared: int, own: int, answer: int, arrivals: Mapping[str, Any]) -> WorkloadSpec:
    return WorkloadSpec.model_validate(
        {
            "class": "chat",
            "requests": requests,
            "system_prompt_tokens": shared,
            "prompt_tokens": _span(own),
            "output_tokens": _span(answer),
            "arrivals": arrivals,
            "warmup_requests": 1,
            "timeout_s": 60,
        }
    )


LOADS: Mapping[str, WorkloadSpec] = {
    "output": _load(1, 0, 24, 56, {"kind": "closed", "concurrency": 1}),
    "input": _load(5, 288, 20, 2, {"kind": "closed", "concurrency": 1}),
    "burst": _load(6, 96, 24, 36, {"kind": "burst"}),
    "poisson": _load(6, 96, 24, 36, {"kind": "poisson", "rate_rps": 16.0}),
    "constant": _load(6, 96, 24, 36, {"kind": "constant", "rate_rps": 12.0}),
    "general": _load(6, 96, 200, 20, {"kind": "closed", "concurrency": 4}),
}

SCENARIOS: Mapping[str, Scenario] = {
    "input": Scenario("input", ("input",), ("median_ttft_ms",)),
    "output": Scenario("output", ("output",), ("mean_tpot_ms",)),
    "load": Scenario("load", ("burst", "poisson", "constant"), ("request_throughput",)),
    "general": Scenario("general", ("general",), ("mean_ttft_ms", "mean_tpot_ms", "request_throughput")),
}


def scenario(name: str) -> Scenario:
    """The scenario called `name`.

    Raises:
        KeyError: there is none.
    """
    return SCENARIOS[name]
