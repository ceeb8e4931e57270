"""Foresight: what a sequential design can show before it begins, and what it would still take after it ended."""

from __future__ import annotations

import math
from statistics import NormalDist

from verifiers.statistics.blocked import smallest_blocked_p

__all__ = ["POWER", "foreseen_power", "least_blocks", "log_gain", "needed_blocks"]

POWER = 0.9
"With which a design should find what it looks for."

_MOST = 400
_PRICE, _FIRST = 1.22, 0.7
"""What the wager costs over a single test, and how much of a block goes into learning what to believe: fitted to
simulations of `look` at noises of 2 to 10 % and levels of .01 and .05 (row `power` of
the benchmarks)."""


def log_gain(gain: float, lower_is_better: bool) -> float:
    """A relative gain as a positive difference of logarithms: -ln(1 - gain) where less is better, else ln(1 + gain)."""
    return -math.log1p(-gain) if lower_is_better else math.log1p(gain)


def least_blocks(level: float) -> int:
    """The fewest blocks after which the wealth can reach 1 / level."""
    blocks = 1
    while smallest_blocked_p(blocks) > level * (1 + 1e-12):
        blocks += 1
    return blocks


def foreseen_power(blocks: int, gain: float, effect: float, noise: float, level: float) -> float:
    """Probability of acceptance within so many blocks, by a normal approximation.

    The wealth needs about sqrt(2 ln(1 / level)) standard errors, times a price; the ratio must reach the least effect.

    Args:
        gain, effect: true and least gain, as differences of logarithms.
        noise: standard deviation of the logarithm from launch to launch.
    """
    if blocks < least_blocks(level) or gain <= 0:
        return 0.0
    if noise <= 0:
        return 1.0 if gain >= effect else 0.0
    normal = NormalDist()
    shown = normal.cdf(gain / noise * math.sqrt(blocks - _FIRST) - _PRICE * math.sqrt(2 * math.log(1 / level)))
    return shown * normal.cdf((gain - effect) / noise * math.sqrt(blocks))


def needed_blocks(gain: float, effect: float, noise: float, level: float) -> int | None:
    """The fewest blocks with a foretold power of POWER; None where even 400 aren't enough."""
    for blocks in range(least_blocks(level), _MOST + 1):
        if foreseen_power(blocks, gain, effect, noise, level) >= POWER:
            return blocks
    return None
