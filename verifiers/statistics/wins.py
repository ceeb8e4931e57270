"""Wins: a wager on ranks alone, for launches that differ more than a bettor on logarithms believes.

As in `wager`, a block's four values are seen without their owners, and money is staked on the 6 ways of calling two of
them the candidate's; where the configs don't differ, it grows on average as little. Here the stakes follow nothing but
how many of its 4 comparisons with the baseline the candidate would win: in proportion to exp(tilt x wins). Which tilt
pays is learnt: money is divided among two, once, at the beginning. Two blocks that it wins whole make 30 to 1, however
noisy they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from verifiers.statistics.blocked import LABELLINGS
from verifiers.statistics.blocks import LAUNCHES, BlockValues

__all__ = ["wealth_by_wins"]

_TILTS = (2.0, 4.0)
_TRUE = LABELLINGS.index((2, 3))


def wealth_by_wins(blocks: Sequence[BlockValues]) -> float:
    """The wealth after all blocks, its stake being 1, from values of which less is better; at most 6 ** blocks."""
    won = [_wins(block) for block in blocks]
    return fmean(math.prod(_paid(wins, tilt) for wins in won) for tilt in _TILTS)


def _paid(wins: Sequence[float], tilt: float) -> float:
    stakes = [math.exp(tilt * number) for number in wins]
    return len(LABELLINGS) * stakes[_TRUE] / math.fsum(stakes)


def _wins(block: BlockValues) -> list[float]:
    """Of each labelling: the comparisons that its candidate wins, a tie counting half."""
    values = (*block.baseline, *block.candidate)
    found = []
    for chosen in LABELLINGS:
        others = [place for place in range(LAUNCHES) if place not in chosen]
        pairs = [(values[mine], values[other]) for mine in chosen for other in others]
        found.append(math.fsum(1.0 if mine < other else 0.5 if mine == other else 0.0 for mine, other in pairs))
    return found
