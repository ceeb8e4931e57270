"""Wager: evidence against "no difference" that may be looked at after every block, and stopped at by any rule.

A bettor sees a block's four values without knowing whose they are, and bets on which two are the candidate's. Where the
configs don't differ, each of the 6 ways is as likely, whatever the values, the noise or the load; so money staked at 6
for one neither grows nor shrinks on average. His wealth is a martingale that begins at 1: that it ever reaches
1 / alpha has a probability of at most alpha (Ville 1939; as a test: Shafer, Test martingales, 2011; Ramdas et al.,
Statistical Science 38, 2023). After k blocks it is at most 6 ** k.

What he bets is what a Bayesian would who believes that the logarithms are normal: over a grid of gains and noises, each
with an outlier's chance, weighed by the blocks before. If he believes wrongly he earns less; the test stays exact. A
steady drift within a block cancels in the difference of the arms' means, which is all that the bet looks at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from verifiers.statistics.blocked import LABELLINGS
from verifiers.statistics.blocks import LAUNCHES, BlockValues

__all__ = ["wealth"]

_STEP = 1.6
"From one believed gain to the next, from the least effect up to:"
_LARGEST = 3.0
"Twenty times as good, as a logarithm. Who can't believe in a gain takes it for an outlier, and bets too little on it."
_QUIETEST, _NOISIEST = 0.015, 0.12
"""Believed standard deviations of the logarithm from launch to launch: doubling, from a third of the least effect where
that is smaller."""
_CALM, _SPREAD = 0.95, 4.0
"Believed share of blocks of the usual noise; the others are so many times as noisy."

_Array = NDArray[np.float64]

_SIDES = np.array([[-0.5 if place in chosen else 0.5 for place in range(LAUNCHES)] for chosen in LABELLINGS])
_TRUE = LABELLINGS.index((2, 3))


def wealth(blocks: Sequence[BlockValues], log_effect: float) -> tuple[float, ...]:
    """The wealth after each block, its stake being 1, from logarithms of which less is better.

    Args:
        log_effect: the least effect, as a positive difference of logarithms.
    """
    believed = _from(log_effect, _STEP, _LARGEST), _from(min(_QUIETEST, log_effect / 3), 2.0, _NOISIEST)
    gains, noises = (grid.ravel() for grid in np.meshgrid(*believed))
    beliefs = np.zeros(len(gains))
    held, found = 0.0, []
    for block in blocks:
        likely = _likelihoods(block, gains, noises)
        predicted = _log_sum(beliefs + likely)
        held += math.log(len(LABELLINGS)) + float(predicted[_TRUE] - _log_sum(predicted))
        beliefs = beliefs + likely[_TRUE]
        found.append(math.exp(held))
    return tuple(found)


def _from(least: float, step: float, most: float) -> _Array:
    """`least`, and on by `step` until `most` is reached."""
    steps = max(0, math.ceil(math.log(most / least) / math.log(step)))
    return np.asarray(least * step ** np.arange(steps + 1), dtype=np.float64)


def _likelihoods(block: BlockValues, gains: _Array, noises: _Array) -> _Array:
    """Log-likelihood (6 labellings, grid) of a block's values, their common level being whatever fits best.

    With s = mean of A - mean of B, the squares left by a gain g are: sum (x - mean)^2 - 2 g s + g^2.
    """
    values = np.array([*block.baseline, *block.candidate])
    values = values - values.mean()
    apart = _SIDES @ values
    left = (values @ values) - 2 * np.outer(apart, gains) + gains**2
    calm, wild = (
        math.log(share) - 3 * np.log(times * noises) - left / (2 * (times * noises) ** 2)
        for share, times in ((_CALM, 1.0), (1 - _CALM, _SPREAD))
    )
    return np.asarray(np.logaddexp(calm, wild), dtype=np.float64)


def _log_sum(logs: _Array) -> _Array:
    """log of the sum of exp over the last axis, without overflow."""
    return np.asarray(np.logaddexp.reduce(logs, axis=-1), dtype=np.float64)
