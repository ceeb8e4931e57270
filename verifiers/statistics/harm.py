"""Harm: is a latency that nobody aimed at worse by more than a margin, beyond chance?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from verifiers.statistics.blocked import smallest_blocked_p
from verifiers.statistics.blocks import BlockValues
from verifiers.statistics.rail import LEVEL, Rail, rail

__all__ = ["Harm", "harm"]


@dataclass(frozen=True, slots=True)
class Harm:
    """One latency, less being better, against its margin."""

    name: str
    rail: Rail
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
        return self.rail.worse > self.rail.margin and self.rail.p_broken <= level

    @property
    def said(self) -> str:
        change = f"worse by {self.rail.worse:.1%}" if self.rail.worse > 0 else f"better by {-self.rail.worse:.1%}"
        return f"{self.name} is {change} (p = {self.rail.p_broken:.2g} that by no more than {self.rail.margin:.0%})"


def harm(name: str, blocks: Sequence[Sequence[tuple[str, float]]], margin: float) -> Harm:
    """Of (arm, milliseconds) by block, two of each arm."""
    values = []
    for block in blocks:
        (a, b), (c, d) = ([max(value, 1e-6) for own, value in block if own == arm] for arm in ("A", "B"))
        values.append(BlockValues((a, b), (c, d)))
    return Harm(name, rail(values, True, margin), len(values))
