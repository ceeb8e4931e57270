"""Racing: a trial that is clearly worse than the best so far is stopped before it ends, with a bounded error.

After every slice money is staked on "this slice is worse by more than the margin". If it is so with a chance of at most
a half, whatever came before, the stake doesn't grow on average, and that it ever reaches 1 / alpha has a probability of
at most alpha (Ville 1939). So one may look after each slice and stop at once. The bettor spreads his stake over all
chances between a half and one (a mixture, as in Robbins 1970).

Slices of one launch share its luck. The margin has to be wider than launches of one config differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import betaln
from scipy.stats import beta

from tools.search.slices import Pair

__all__ = ["Race", "race", "wealth"]

_LAUNCHES_APART = 3.0
"Standard deviations between two launches that the margin spans at least."


@dataclass(frozen=True, slots=True)
class Race:
    """Where a trial stands against the best so far."""

    slices: int
    worse: int
    "Of them, worse by more than the margin."
    wealth: float
    "What a stake of 1 has become; evidence that the trial is worse."
    stop: bool
    sentence: str


def race(
    pairs: Sequence[Pair], *, lower_is_better: bool, noise: float, margin: float = 0.0, alpha: float = 0.05
) -> Race:
    """Whether to stop a trial after its `pairs` with the best one's slices.

    Args:
        noise: relative standard deviation between launches of one config.
        margin: by which share it has to be worse; widened to what two launches of one config may differ by.
        alpha: chance of ever stopping a trial that is no worse.
    """
    wide = max(margin, _LAUNCHES_APART * math.sqrt(2) * noise)
    lost = [_is_worse(pair, wide, lower_is_better) for pair in pairs]
    worse, held = sum(lost), max(wealth(sum(lost[:looked]), looked) for looked in range(len(lost) + 1))
    stop = held >= 1 / alpha
    told = f"{worse} of {len(pairs)} slices worse than the best by more than {wide:.1%}"
    return Race(len(pairs), worse, held, stop, f"stopped early: {told}" if stop else told)


def wealth(worse: int, slices: int) -> float:
    """What a stake of 1 becomes after so many slices, so many of them worse: 2 * integral of (2p)^k (2 - 2p)^(n - k)
    over p from a half to 1."""
    better = slices - worse
    log_integral = betaln(worse + 1, better + 1) + beta.logsf(0.5, worse + 1, better + 1)
    return math.exp((slices + 1) * math.log(2) + float(log_integral))


def _is_worse(pair: Pair, margin: float, lower_is_better: bool) -> bool:
    mine, theirs = (pair.mine, pair.theirs) if lower_is_better else (pair.theirs, pair.mine)
    return mine > theirs * (1 + margin)
