"""The exact one-sided rank test and the Hodges-Lehmann ratio: the statistics of acceptance."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from statistics import median

__all__ = ["exact_rank_p", "hodges_lehmann_ratio", "ratio_interval", "smallest_p"]


def smallest_p(per_arm: int) -> float:
    """The smallest one-sided p that `per_arm` launches in each arm can reach: 1 / C(2n, n)."""
    return 1 / comb(2 * per_arm, per_arm)


def exact_rank_p(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    """One-sided exact p of the Mann-Whitney test that `candidate` is stochastically *smaller* than `baseline`.

    The permutation distribution of the candidate's rank sum is counted over all C(m+n, n) assignments, with midranks,
    so it is exact with ties too. Values may be in any unit, the same in both arms.

    Source: Mann and Whitney 1947; Lehmann, Nonparametrics, 1975, section 1.
    """
    pooled = sorted([*baseline, *candidate])
    rank = {value: _midrank(pooled, value) for value in set(pooled)}
    # Midranks are multiples of 1/2: doubled, they are whole numbers, and the distribution of their sums is a count.
    doubled = [round(2 * rank[value]) for value in pooled]
    observed = sum(round(2 * rank[value]) for value in candidate)
    ways = _ways_by_sum(doubled, len(candidate))
    at_most = sum(count for total, count in ways.items() if total <= observed)
    return at_most / comb(len(pooled), len(candidate))


def hodges_lehmann_ratio(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    """Median of all candidate / baseline ratios: the multiplicative Hodges-Lehmann shift. 0.9 means 10 % smaller."""
    return median(c / b for b in baseline for c in candidate)


def ratio_interval(baseline: Sequence[float], candidate: Sequence[float], alpha: float) -> tuple[float, float]:
    """Exact two-sided interval of level 1 - `alpha` (or the widest the sample allows) of the Hodges-Lehmann ratio.

    The interval's ends are order statistics of the m*n ratios; the index comes from the null distribution of U (Lehmann
    1975, section 2.4). Where the sample is too small for the level, the whole range of the ratios is returned.
    """
    ratios = sorted(c / b for b in baseline for c in candidate)
    m, n = len(baseline), len(candidate)
    ways = _ways_by_sum(list(range(1, m + n + 1)), n)
    least = n * (n + 1) // 2
    cumulative, index = 0, 0
    for u in range(m * n + 1):
        cumulative += ways.get(least + u, 0)
        if cumulative / comb(m + n, n) > alpha / 2:
            break
        index = u + 1
    index = min(index, (m * n - 1) // 2)
    index = max(index, 1)
    return ratios[index - 1], ratios[-index]


def _midrank(pooled: Sequence[float], value: float) -> float:
    first = pooled.index(value) + 1
    return first + (pooled.count(value) - 1) / 2


def _ways_by_sum(ranks: Sequence[int], size: int) -> dict[int, int]:
    """How many subsets of `size` of `ranks` have each sum."""
    table: list[dict[int, int]] = [{0: 1}, *({} for _ in range(size))]
    for rank in ranks:
        for taken in range(size, 0, -1):
            row = table[taken]
            for total, count in table[taken - 1].items():
                row[total + rank] = row.get(total + rank, 0) + count
    return table[size]
