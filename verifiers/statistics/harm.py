"""Harm: is a latency that nobody aimed at worse by more than a margin, beyond chance?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from verifiers.statistics.blocked import aligned_rank_p, blocked_ratio, smallest_blocked_p
from verifiers.statistics.blocks import paired

__all__ = ["Harm", "harm"]

LEVEL = 0.05

_LEAST_MS = 1e-6
"A latency of zero is taken for this: it has no logarithm."


@dataclass(frozen=True, slots=True)
class Harm:
    """One latency, less being better, against its margin. It is asked once, at the end."""

    name: str
    worse: float
    "Relative worsening, by the Hodges-Lehmann ratio; negative if better."
    margin: float
    p: float
    "Exact one-sided p of the ranks within blocks, against: worse by the margin or less."
    blocks: int

    def shown(self, questions: int) -> bool:
        """Whether it is shown to be worse by more than the margin, when it is one of so many that were asked.

        At .05 over all of them (Bonferroni), or where so few blocks can't be as sure as that, at what they can be sure
        of: every launch of the candidate worse, by more than the margin, than every one of the baseline in its block.
        One block alone can show nothing.
        """
        if self.blocks < 2:
            return False
        level = max(LEVEL / questions, smallest_blocked_p(self.blocks) * (1 + 1e-12))
        return self.worse > self.margin and self.p <= level

    @property
    def said(self) -> str:
        change = f"worse by {self.worse:.1%}" if self.worse > 0 else f"better by {-self.worse:.1%}"
        return f"{self.name} is {change} (p = {self.p:.2g} that by no more than {self.margin:.0%})"


def harm(name: str, blocks: Sequence[Sequence[tuple[str, float]]], margin: float) -> Harm:
    """Of (arm, milliseconds) by block, two of each arm."""
    values = [paired([(arm, max(value, _LEAST_MS)) for arm, value in block]) for block in blocks]
    logs = [block.favourable(True).forgiven(math.log1p(margin)).turned for block in values]
    return Harm(name, blocked_ratio(values) - 1, margin, aligned_rank_p(logs), len(values))
