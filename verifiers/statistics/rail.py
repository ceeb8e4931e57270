"""Rail: is a metric no worse than allowed, or shown to be worse? Non-inferiority, exact, at any time of looking."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from verifiers.statistics.blocked import blocked_ratio
from verifiers.statistics.blocks import BlockValues
from verifiers.statistics.wager import wealth
from verifiers.statistics.wins import wealth_by_wins

__all__ = ["GRAIN", "LEVEL", "Rail", "rail"]

LEVEL = 0.05

GRAIN = 0.001
"Smallest step that a metric tells, in its own unit, where it counts nothing: a microsecond of a latency."

_LEAST = 0.02
"Least distance from the margin that the bettor believes in, as a logarithm. It costs evidence, never exactness."


@dataclass(frozen=True, slots=True)
class Rail:
    """One metric against its margin. Either p is 1 / wealth, so that it is at most x with a probability of at most x
    *at any look*, however many there are and whoever chooses where to stop."""

    worse: float
    "Relative worsening, by the Hodges-Lehmann ratio; negative if better."
    margin: float
    p_kept: float
    "One-sided, against: worse by the margin or more."
    p_broken: float
    "One-sided, against: worse by the margin or less."

    @property
    def kept(self) -> bool:
        """Shown to be worse by less than the margin."""
        return self.p_kept <= LEVEL

    @property
    def broken(self) -> bool:
        """Shown to be worse by more than the margin."""
        return self.p_broken <= LEVEL


def rail(blocks: Sequence[BlockValues], lower_is_better: bool, margin: float, grain: float = GRAIN) -> Rail:
    """Both tests of a metric in its own unit, zero or more. Without blocks nothing is shown.

    The candidate's values are taken to be better than they were, by the margin and by half a grain, and a wager is held
    that they are still worse than the baseline's of their block, another that they are better now (see `wager`). Half a
    grain is what remains of a relative margin where the baseline is zero. Logarithms, and the ratio, are of values one
    grain higher, so that zeros have them too.
    """
    if not blocks:
        return Rail(math.nan, margin, 1.0, 1.0)
    ratio = blocked_ratio([_raised(block, grain) for block in blocks])
    logs = [
        _raised(_forgiven(one, lower_is_better, margin, grain), grain).favourable(lower_is_better) for one in blocks
    ]
    return Rail(
        worse=ratio - 1 if lower_is_better else 1 / ratio - 1,
        margin=margin,
        p_kept=_p(logs),
        p_broken=_p([block.turned for block in logs]),
    )


def _p(logs: Sequence[BlockValues]) -> float:
    """Half of the stake is bet on logarithms, half on ranks: a margin is narrow, and two blocks have to be enough."""
    return min(1.0, 2 / (wealth(logs, _LEAST)[-1] + wealth_by_wins(logs)))


def _forgiven(block: BlockValues, lower_is_better: bool, margin: float, grain: float) -> BlockValues:
    share, step = (1 / (1 + margin), -grain / 2) if lower_is_better else (1 + margin, grain / 2)
    c, d = block.candidate
    return BlockValues(block.baseline, (c * share + step, d * share + step))


def _raised(block: BlockValues, grain: float) -> BlockValues:
    (a, b), (c, d) = block.baseline, block.candidate
    return BlockValues((a + grain, b + grain), (c + grain, d + grain))
