"""Stratified draws, alone, in correlated pairs and in series: every seed has the same marginals, in another order.

n draws of a distribution are taken one from each of n equally likely strata, so that their empirical distribution lies
within 1 / n of it (Kolmogorov-Smirnov). What a trial measures then varies by its server and by the order of its
requests, not by whether this seed happened to draw the long ones. Dependence is put in by ranks: a Gaussian copula.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

__all__ = ["stratified", "stratified_pairs", "stratified_series"]


def stratified(random: Random, n: int) -> list[float]:
    """n numbers in (0, 1), one from each interval of length 1 / n, in random order."""
    order = list(range(n))
    random.shuffle(order)
    return _within(random, order)


def stratified_pairs(random: Random, n: int, rank_correlation: float) -> tuple[list[float], list[float]]:
    """Two such lists whose ranks correlate as `rank_correlation` (Spearman, -1 to 1) in expectation."""
    weight = _pearson(rank_correlation)
    first = [random.gauss(0, 1) for _ in range(n)]
    second = [weight * z + math.sqrt(1 - weight * weight) * random.gauss(0, 1) for z in first]
    return _within(random, _ranks(first)), _within(random, _ranks(second))


def stratified_series(random: Random, n: int, persistence: float) -> list[float]:
    """Such a list in which the rank correlation of neighbours is `persistence`: a first-order autoregression."""
    weight = _pearson(persistence)
    state = random.gauss(0, 1)
    series = []
    for _ in range(n):
        series.append(state)
        state = weight * state + math.sqrt(1 - weight * weight) * random.gauss(0, 1)
    return _within(random, _ranks(series))


def _pearson(spearman: float) -> float:
    """The correlation of two normals whose ranks correlate as `spearman` (Kruskal 1958)."""
    return max(-1.0, min(1.0, 2 * math.sin(math.pi * spearman / 6)))


def _ranks(values: Sequence[float]) -> list[int]:
    ranks = [0] * len(values)
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        ranks[index] = rank
    return ranks


def _within(random: Random, strata: Sequence[int]) -> list[float]:
    n = len(strata)
    # random() may be exactly 0, where the quantiles of unbounded distributions aren't finite.
    return [(stratum + max(random.random(), 2.0**-40)) / n for stratum in strata]
