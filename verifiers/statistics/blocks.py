"""Blocks: four launches under the same requests, two of each arm, as values of one metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

__all__ = ["LAUNCHES", "BlockValues", "noise", "noise_of_one", "paired"]

LAUNCHES = 4
"Of a block: two of the baseline, two of the candidate."


@dataclass(frozen=True, slots=True)
class BlockValues:
    """One metric in a block's launches, in its own unit, every value zero or more; what needs a ratio, above zero.

    Under the null that the configs don't differ in it, the four values could have been dealt to the arms in any of
    C(4, 2) = 6 ways, each as likely: they are of the same requests at the same load.
    """

    baseline: tuple[float, float]
    candidate: tuple[float, float]

    def favourable(self, lower_is_better: bool) -> BlockValues:
        """The same as logarithms, turned so that less is always better."""
        sign = 1.0 if lower_is_better else -1.0
        (a, b), (c, d) = self.baseline, self.candidate
        return BlockValues(
            (sign * math.log(a), sign * math.log(b)),
            (sign * math.log(c), sign * math.log(d)),
        )

    def forgiven(self, log_margin: float) -> BlockValues:
        """Of logarithms: the candidate better by `log_margin` than it was (worse where that is negative)."""
        c, d = self.candidate
        return BlockValues(self.baseline, (c - log_margin, d - log_margin))

    @property
    def turned(self) -> BlockValues:
        """The arms changed about: what is asked of the candidate is asked of the baseline."""
        return BlockValues(self.candidate, self.baseline)


def paired(values: Sequence[tuple[str, float]]) -> BlockValues:
    """A block of (arm, value), two of each arm."""
    (a, b), (c, d) = ([value for arm, value in values if arm == wanted] for wanted in ("A", "B"))
    return BlockValues((a, b), (c, d))


def noise(blocks: Sequence[BlockValues]) -> float | None:
    """Standard deviation of the metric's logarithm from launch to launch, within blocks and arms; None without blocks.

    From the differences within each pair of the same arm: d = x - y has twice the variance of x. For small values the
    same as the relative standard deviation. `blocks` hold logarithms.
    """
    pairs = [pair for block in blocks for pair in (block.baseline, block.candidate)]
    return math.sqrt(fmean((x - y) ** 2 / 2 for x, y in pairs)) if pairs else None


def noise_of_one(values: Sequence[float]) -> float | None:
    """The same from launches of one config under the same requests (A/A); None below two, or where a value isn't above
    zero. `values` are the metric itself."""
    if len(values) < 2 or min(values) <= 0:
        return None
    return stdev(math.log(value) for value in values)
