"""The exact one-sided rank test of two samples that aren't in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

__all__ = ["exact_rank_p"]


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
