"""Look: after each block, go on or stop? One pure function, for the harness as it measures and for the gate after."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from verifiers.statistics.blocked import aligned_rank_p, blocked_interval, blocked_ratio, smallest_blocked_p
from verifiers.statistics.blocks import BlockValues, noise
from verifiers.statistics.foresight import log_gain, needed_blocks
from verifiers.statistics.holm import holm
from verifiers.statistics.rail import LEVEL, Rail
from verifiers.statistics.wager import wealth

__all__ = ["Decision", "Design", "Look", "look"]

Decision = Literal["go_on", "accept", "reject", "exhausted"]
"""accept: better beyond chance and by enough, and no guardrail is in doubt. reject: even the favourable end of the
interval is below the least effect, or a guardrail is broken. exhausted: neither, and what is left can't settle it."""

FUTILE = 0.1
"""Most probability, over all looks together, that a gain as large as the plan looks for is held to be excluded. That
the best case is below the least effect, or that what is left can't bring the evidence, may end it besides."""
TAIL = 0.05
"With which the ratio's interval may miss the truth at either end."


@dataclass(frozen=True, slots=True)
class Design:
    """The rule by which a confirmation stops, fixed before it begins."""

    lower_is_better: bool
    min_effect: float
    "Least relative gain worth a commit."
    target: float
    "Relative gain that the plan is made to find; where so much is excluded, it stops."
    level: float
    "Most probability of accepting what is no better, over all looks together."
    most_blocks: int


@dataclass(frozen=True)
class Look:
    """What the blocks so far say."""

    decision: Decision
    blocks: int
    wealth: float
    "Of the wager against no difference; 1 / level is enough."
    p: float
    "One-sided exact p of the aligned ranks."
    ratio: float
    "Candidate over baseline, within blocks."
    low: float
    high: float
    gain: float
    "Relative improvement; negative if worse."
    noise: float
    "Relative standard deviation from launch to launch."
    further: int | None
    "Launches an arm beyond those so far that it would take, at the noise seen; None where none would do."
    why: str

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "high": self.high if math.isfinite(self.high) else None}

    def deciding(self, decision: Decision, why: str) -> Look:
        return replace(self, decision=decision, why=why)

    def better(self, design: Design) -> bool:
        """Beyond chance and by enough."""
        enough = self.wealth * design.level >= 1 and self.p <= design.level
        return enough and self.gain >= design.min_effect

    def pointless(self, design: Design) -> bool:
        """Whether even the favourable end of the interval is below the least effect."""
        best = 1 - self.low if design.lower_is_better else self.high - 1
        return self.blocks > 0 and best < design.min_effect

    @property
    def said(self) -> str:
        """The figures, for a sentence."""
        ends = f"{self.low:.3f} to {self.high:.3f}" if math.isfinite(self.high) else "unbounded"
        return (
            f"x{self.ratio:.3f} (90 % interval {ends}) over {self.blocks} blocks, "
            f"evidence {self.wealth:.3g} to 1, p = {self.p:.3g}"
        )


def look(blocks: Sequence[BlockValues], design: Design, rails: Mapping[str, Rail] | None = None) -> Look:
    """Decide after `blocks`, in the order they were measured and in the metric's own unit.

    Accepts where the wager's wealth reaches 1 / level (so whatever the times of looking, at most `level` of the nulls
    get there) *and* the exact rank test has p <= level *and* the Hodges-Lehmann ratio reaches the least effect *and*
    every guardrail is shown to be kept, which may be asked at every look too (see `rail`). Giving up never needs a
    level: it can only lower what is accepted.
    """
    if not blocks:
        reachable = smallest_blocked_p(design.most_blocks) <= design.level * (1 + 1e-12)
        why = "nothing is measured yet" if reachable else _unreachable(design)
        return Look("go_on" if reachable else "exhausted", 0, 1.0, 1.0, 1.0, 0.0, math.inf, 0.0, 0.0, None, why)
    lower = design.lower_is_better
    effect, target = log_gain(design.min_effect, lower), log_gain(design.target, lower)
    logs = [block.favourable(lower) for block in blocks]
    ratio, spread = blocked_ratio(blocks), noise(logs) or 0.0
    gain = 1 - ratio if lower else ratio - 1
    low, high = blocked_interval(blocks, TAIL)
    further = _further(len(blocks), gain, effect, target, spread, design)
    held, p = wealth(logs, effect)[-1], aligned_rank_p(logs)
    found = Look("go_on", len(blocks), held, p, ratio, low, high, gain, spread, further, "the sample can't tell yet")
    harmed = holm({name: rail.p_broken for name, rail in (rails or {}).items()})
    broken = [name for name, p_broken in harmed.items() if p_broken <= LEVEL]
    doubtful = [name for name, rail in (rails or {}).items() if not rail.kept]
    left = design.most_blocks - len(blocks)
    better = found.better(design)
    if broken:
        return found.deciding("reject", f"{', '.join(broken)}: shown to be worse than allowed")
    if better and not doubtful:
        return found.deciding("accept", f"better by {gain:.1%}")
    if found.pointless(design):
        return found.deciding("reject", f"even the best case is below the least effect of {design.min_effect:.1%}")
    if left <= 0:
        doubt = f"; it is better, but {', '.join(doubtful)} is in doubt" if better else ""
        return found.deciding("exhausted", f"the most blocks are measured{doubt}")
    if not better and held * design.level < smallest_blocked_p(left):
        return found.deciding("exhausted", f"the {left} blocks left can't bring the evidence that it takes")
    if not better and _hopeless(logs, effect, target):
        return found.deciding("exhausted", f"a gain of {design.target:.1%}, which was looked for, is excluded")
    return found


def _hopeless(logs: Sequence[BlockValues], effect: float, target: float) -> bool:
    """Whether the wager against "better by the target or more" has reached 1 / FUTILE."""
    return wealth([block.forgiven(-target).turned for block in logs], effect)[-1] >= 1 / FUTILE


def _further(blocks: int, gain: float, effect: float, target: float, spread: float, design: Design) -> int | None:
    """Launches an arm beyond `blocks`: for the gain seen where it is enough to matter, else for the target."""
    seen = log_gain(min(gain, 0.999), design.lower_is_better) if gain > design.min_effect else target
    needed = needed_blocks(seen, effect, spread, design.level)
    return None if needed is None else 2 * max(1, needed - blocks)


def _unreachable(design: Design) -> str:
    return f"{design.most_blocks} blocks can't reach level {design.level:.3g}, whatever they hold"
