"""Exact tests, ratios and intervals from blocks: launches are compared with those of their own block alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from statistics import median

from verifiers.statistics.blocks import LAUNCHES, BlockValues

__all__ = ["LABELLINGS", "aligned_rank_p", "blocked_interval", "blocked_ratio", "smallest_blocked_p"]

LABELLINGS = tuple(combinations(range(LAUNCHES), 2))
"The 6 ways of calling two of a block's four launches the candidate's."

_WAYS_OF_WINS = Counter({0: 1, 1: 1, 2: 2, 3: 1, 4: 1})
"Of those, how many give the candidate each number of wins in its 4 comparisons with the baseline."


def smallest_blocked_p(blocks: int) -> float:
    """The smallest one-sided p that so many blocks can reach: 6 ** -blocks."""
    return float(len(LABELLINGS)) ** -blocks


def aligned_rank_p(blocks: Sequence[BlockValues]) -> float:
    """One-sided exact p that the candidate's values tend to be *less* than the baseline's of the same block.

    Values are aligned (each block's mean taken off), ranked together with midranks, and the candidate's rank sum is
    held against its distribution over all 6 ** blocks dealings of the values within their blocks. Alignment doesn't
    know which launch was whose, so the p is exact, with ties too. 1 without blocks. Give logarithms of a positive
    metric.

    Source: Hodges and Lehmann, Annals of Mathematical Statistics 33, 1962.
    """
    aligned: list[list[float]] = []
    for block in blocks:
        values = (*block.baseline, *block.candidate)
        middle = math.fsum(values) / LAUNCHES
        aligned.append([round(value - middle, 12) for value in values])  # equal values stay ties
    pooled = sorted(value for values in aligned for value in values)
    first: dict[float, int] = {}
    for place, value in enumerate(pooled):
        first.setdefault(value, place)
    count = Counter(pooled)
    # A midrank is a multiple of 1/2: doubled, all are whole numbers and the distribution of their sum is a count.
    doubled = {value: 2 * place + 1 + count[value] for value, place in first.items()}
    observed, ways = 0, Counter({0: 1})
    for block_values in aligned:
        ranks = [doubled[value] for value in block_values]
        observed += ranks[2] + ranks[3]
        ways = _sums(ways, Counter(ranks[i] + ranks[j] for i, j in LABELLINGS))
    at_most = sum(number for total, number in ways.items() if total <= observed)
    return at_most / math.pow(len(LABELLINGS), len(blocks))


def blocked_ratio(blocks: Sequence[BlockValues]) -> float:
    """Median of all candidate / baseline ratios within blocks: the Hodges-Lehmann shift. 0.9 means 10 % less.

    `blocks` hold the metric itself.

    Raises:
        statistics.StatisticsError: no blocks.
    """
    return median(_ratios(blocks))


def blocked_interval(blocks: Sequence[BlockValues], tail: float = 0.05) -> tuple[float, float]:
    """Exact interval of the ratio: it misses the truth at either end with a probability of at most `tail`.

    Its ends are order statistics of the ratios within blocks; which ones, the null distribution of the candidate's wins
    (van Elteren 1960, all blocks of one size) says. (0, inf) where so few blocks can't be as sure as that.

    `blocks` hold the metric itself.
    """
    ratios = sorted(_ratios(blocks))
    ways = Counter({0: 1})
    for _ in blocks:
        ways = _sums(ways, _WAYS_OF_WINS)
    below, cut = 0, 0
    for wins in range(len(ratios)):
        below += ways[wins]
        if below * smallest_blocked_p(len(blocks)) > tail:
            break
        cut = wins + 1
    return (ratios[cut - 1], ratios[-cut]) if cut else (0.0, math.inf)


def _ratios(blocks: Sequence[BlockValues]) -> list[float]:
    return [c / b for block in blocks for c in block.candidate for b in block.baseline]


def _sums(ways: Counter[int], more: Counter[int]) -> Counter[int]:
    """How often each sum comes about from one of `ways` and one of `more`."""
    found: Counter[int] = Counter()
    for total, number in ways.items():
        for added, times in more.items():
            found[total + added] += number * times
    return found
