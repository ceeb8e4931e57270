"""Rail: is a metric no worse than allowed, or shown to be worse? Non-inferiority, exact within blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from verifiers.statistics.blocked import aligned_rank_p, blocked_ratio
from verifiers.statistics.blocks import BlockValues

__all__ = ["LEVEL", "Rail", "rail"]

LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Rail:
    """One metric against its margin."""

    worse: float
    "Relative worsening, by the Hodges-Lehmann ratio; negative if better."
    margin: float
    p_kept: float
    "Exact one-sided p against: worse by the margin or more."
    p_broken: float
    "Exact one-sided p against: worse by the margin or less."

    @property
    def kept(self) -> bool:
        """Shown to be worse by less than the margin."""
        return self.p_kept <= LEVEL

    @property
    def broken(self) -> bool:
        """Shown to be worse by more than the margin."""
        return self.p_broken <= LEVEL


def rail(blocks: Sequence[BlockValues], lower_is_better: bool, margin: float) -> Rail:
    """Both tests of a metric above zero, in its own unit: the candidate's values are moved by the margin, then permuted
    within blocks. Without blocks nothing is shown."""
    if not blocks:
        return Rail(math.nan, margin, 1.0, 1.0)
    logs = [block.favourable(lower_is_better).forgiven(math.log1p(margin)) for block in blocks]
    ratio = blocked_ratio(blocks)
    worse = ratio - 1 if lower_is_better else 1 / ratio - 1
    turned = [BlockValues(block.candidate, block.baseline) for block in logs]
    return Rail(worse, margin, aligned_rank_p(logs), aligned_rank_p(turned))
