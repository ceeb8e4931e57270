"""Rows `coverage` and `resolve`: whether the statistics of `tools/measure` keep what they say.

Both are simulations with a truth: queues whose percentiles are known, and trials whose noise is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.tools.simulated_queues import Queue
from tools.measure import percentile_interval
from tools.measure.dependence import certainties
from tools.measure.resolve import LEAST_TRIALS, Plan, half_width, plan

__all__ = ["coverage", "resolve"]

SHARES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
QUEUES = (Queue(1), Queue(4), Queue(16), Queue(4, sigma=1.0), Queue(16, sigma=1.0))
LONG, SHORT = 100_000, 4_000


def coverage(quick: bool = False) -> dict[str, Any]:
    """How often the 95 % intervals of P50, P95 and P99 hold the truth, over 1,000 queues at load 0.8.

    Five kinds, 200 of each, 100,000 requests: as many as the slowest to forget (M/M/1) needs to have 10 effective ones
    beyond its P99. What the first 4,000 requests of each can tell stands beside it, as evidence.
    """
    each = 20 if quick else 200
    told: dict[tuple[int, str], list[bool]] = {}
    naive: dict[str, list[bool]] = {name: [] for name in SHARES}
    kinds: dict[str, dict[str, list[float | None]]] = {}
    for number, queue in enumerate(QUEUES):
        truths = dict(zip(SHARES, queue.quantiles(tuple(SHARES.values()), seed=900 + number), strict=True))
        sojourns = queue.sojourns(each, LONG, seed=number)
        for row in sojourns:
            ascending = np.sort(row).tolist()
            for name, share in SHARES.items():
                exact = percentile_interval(ascending, share)
                naive[name].append(exact is not None and exact.low <= truths[name] <= exact.high)
        for requests in (LONG, SHORT):
            hits: dict[str, list[bool]] = {name: [] for name in SHARES}
            for row in sojourns[:, :requests]:
                for (name, truth), one in zip(truths.items(), certainties(row, tuple(SHARES.values())), strict=True):
                    if one.interval is not None:
                        hits[name].append(one.interval.low <= truth <= one.interval.high)
            for name, found in hits.items():
                told.setdefault((requests, name), []).extend(found)
            kinds.setdefault(f"{queue.name}, {requests} requests", {}).update(
                {name: [len(found) / each, _share(found)] for name, found in hits.items()}
            )
    value = {name: _share(told[LONG, name]) for name in SHARES}
    return {
        "value": value,
        "goal": "0.93 to 0.97",
        "ok": None if quick else all(share is not None and 0.93 <= share <= 0.97 for share in value.values()),
        "queues": each * len(QUEUES),
        "told": {name: len(told[LONG, name]) / (each * len(QUEUES)) for name in SHARES},
        "covered if taken as independent": {name: _share(hits) for name, hits in naive.items()},
        "told and covered": kinds,
    }


NOISES = (0.01, 0.02, 0.04, 0.08, 0.12)
WISHES = (0.4, 0.55, 0.7)
"Effect over noise. The first is beyond the budget, the others take ten to thirty trials a side."
QUIET = 3.0
"Effect over noise of a machine so quiet that the least number of trials does better than was asked."
OUTLIERS = (0.0, 0.05)
"Share of trials that a neighbour slows by 30 %."
BUDGET = 60
"Trials, both sides together, after the pilot of five."


@dataclass(frozen=True)
class Case:
    """One kind of machine and one wish."""

    noise: float
    effect: float
    outliers: float

    def campaign(self, seed: int) -> tuple[Plan, Plan, float]:
        """(the plan after the pilot, the last plan before the last trial, the half-width achieved)."""
        random = np.random.default_rng(seed)
        first = [self._trial(random) for _ in range(LEAST_TRIALS)]
        second: list[float] = []
        left_s = float(BUDGET)
        at_first = now = plan(first, second, effect=self.effect, seconds_per_trial=1.0, budget_s=left_s)
        last = now
        while not now.done:
            last = now
            (first if len(first) < len(second) else second).append(self._trial(random))
            left_s -= 1.0
            now = plan(first, second, effect=self.effect, seconds_per_trial=1.0, budget_s=left_s)
        return at_first, last, half_width(first, second)

    def _trial(self, random: np.random.Generator) -> float:
        value = 100 * float(np.exp(random.normal(0, self.noise)))
        return value * 1.3 if random.random() < self.outliers else value


CASES = tuple(Case(noise, noise * wish, outliers) for noise in NOISES for wish in WISHES for outliers in OUTLIERS)
QUIET_CASES = tuple(Case(noise, noise * QUIET, outliers) for noise in NOISES for outliers in OUTLIERS)


def resolve(quick: bool = False) -> dict[str, Any]:
    """How far the achieved half-width is from the promised one: 30 cases of noise, wish and disturbed trials, each
    played ten times; the value is what 95 % of them keep.

    The promise is the plan's, before the last trial of a campaign that plans again after each; how many first ones
    were kept, made from five trials, stands beside it. Quiet machines are counted apart: theirs is kept from above.
    """
    seeds = range(2 if quick else 10)
    campaigns = [case.campaign(1000 * seed + number) for number, case in enumerate(CASES) for seed in seeds]
    errors = [achieved / last.promised_half_width - 1 for _, last, achieved in campaigns]
    early = [abs(achieved / first.promised_half_width - 1) for first, _, achieved in campaigns]
    quiet = [case.campaign(1000 * seed + number) for number, case in enumerate(QUIET_CASES) for seed in seeds]
    value = float(np.quantile(np.abs(errors), 0.95))
    return {
        "value": round(value, 3),
        "goal": "<= 0.20",
        "ok": value <= 0.20,
        "cases": len(CASES),
        "campaigns": len(campaigns),
        "within 20 %": sum(abs(error) <= 0.20 for error in errors),
        "over 20 % wider than promised": sum(error > 0.20 for error in errors),
        "widest and narrowest": [round(max(errors), 3), round(min(errors), 3)],
        "first promise within 20 %": sum(error <= 0.20 for error in early),
        "beyond the budget": sum(not last.feasible for _, last, _ in campaigns),
        "quiet campaigns": len(quiet),
        "quiet, at most 20 % above": sum(achieved <= 1.2 * last.promised_half_width for _, last, achieved in quiet),
    }


def _share(hits: list[bool]) -> float | None:
    return round(sum(hits) / len(hits), 3) if hits else None
