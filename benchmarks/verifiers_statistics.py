"""Rows about the statistics of acceptance: what a confirmation accepts, what it finds, and what that costs.

The simulated rows play whole confirmations through the stopping rule that the harness and the gate use. A launch's luck
is drawn from `data/launch_noise.json` (real launches of the bundled engine, see `launch_noise.py`), and, so that the
rule isn't fitted to one machine's day, from a normal and a heavy-tailed distribution of given spread.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.table import Row
from tools.deployment import Acceptance
from verifiers.plan import most_blocks
from verifiers.statistics.blocked import aligned_rank_p, blocked_ratio
from verifiers.statistics.blocks import BlockValues
from verifiers.statistics.foresight import foreseen_power, least_blocks, log_gain
from verifiers.statistics.look import Design, look
from verifiers.statistics.rail import LEVEL, rail
from verifiers.statistics.wager import wealth

__all__ = ["SLOW", "aa_simulated", "power", "trials_saved"]

SLOW = ("aa_simulated", "power", "trials_saved")
"Each takes one to three minutes."

RECORDED = Path(__file__).parent / "data" / "launch_noise.json"
TRUTHS = (0.0, 0.05, 0.10, 0.20)
SHARE = 0.60
MARGIN = 0.05
"Of the guardrails that are simulated."
ACCEPTANCE = Acceptance()
DESIGN = Design(
    lower_is_better=True,
    min_effect=0.05,
    target=0.10,
    level=ACCEPTANCE.alpha,
    most_blocks=most_blocks(ACCEPTANCE, ACCEPTANCE.alpha),
)
"What a deployment gets that says nothing of its own."

_Values = NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """How launches differ: a name, and logarithms of four launches of a block."""

    name: str
    spread: float
    "Standard deviation of the logarithm."
    draw: Callable[[Generator], _Values]


def measured() -> list[Noise]:
    """One of each recorded metric: launches' residuals, drawn alike for all four, with a random sign."""
    found = json.loads(RECORDED.read_text())["residuals_of_log"]
    return [
        _resampled(name, np.array([value for group in groups for value in group])) for name, groups in found.items()
    ]


def _resampled(name: str, pool: _Values) -> Noise:
    def draw(random: Generator) -> _Values:
        return np.asarray(random.choice(pool, 4) * random.choice([-1.0, 1.0], 4), dtype=np.float64)

    return Noise(f"measured {name}", float(np.sqrt(np.mean(pool**2))), draw)


def normal(spread: float) -> Noise:
    return Noise(f"normal {spread:.1%}", spread, lambda random: random.normal(0, spread, 4))


def heavy(spread: float) -> Noise:
    """Student's t of three degrees of freedom: now and then a launch is far off."""
    return Noise(f"heavy-tailed {spread:.1%}", spread, lambda random: random.standard_t(3, 4) * spread / math.sqrt(3))


MADE_FOR = normal(0.07)
"The largest noise at which the default design keeps nearly all of its power for a 10 % gain."


@dataclass(frozen=True)
class Played:
    """How simulated confirmations ended."""

    accepted: float
    "Share."
    launches: float
    "On average."


def played(noise: Noise, truth: float, count: int, seed: int, design: Design = DESIGN) -> Played:
    """`count` confirmations of a candidate whose true gain is `truth`, each ended by its rule."""
    random = np.random.default_rng([seed, round(1000 * truth)])
    accepted = launches = 0
    for _ in range(count):
        blocks: list[BlockValues] = []
        decision = "go_on"
        while decision == "go_on":
            blocks.append(_block(noise, truth, random))
            decision = look(blocks, design).decision
        accepted += decision == "accept"
        launches += 4 * len(blocks)
    return Played(accepted / count, launches / count)


def _block(noise: Noise, truth: float, random: Generator) -> BlockValues:
    a, b, c, d = 100 * np.exp(noise.draw(random))
    return BlockValues((a, b), (c * (1 - truth), d * (1 - truth)))


def stubborn(noise: Noise, count: int, seed: int) -> int:
    """How many nulls are accepted by whoever looks after each block, never gives up, and stops where it pleases best:
    at the first look of all that could be accepted."""
    random = np.random.default_rng([seed, 1])
    won = 0
    for _ in range(count):
        blocks = [_block(noise, 0.0, random) for _ in range(DESIGN.most_blocks)]
        logs = [block.favourable(DESIGN.lower_is_better) for block in blocks]
        rich = [k for k, held in enumerate(wealth(logs, _log(DESIGN.min_effect)), start=1) if held >= 1 / DESIGN.level]
        won += any(look(blocks[:k], DESIGN).better(DESIGN) for k in rich)
    return won


def guarded(noise: Noise, worse: float, margin: float, looks: Sequence[int], count: int, seed: int) -> tuple[int, int]:
    """How many guardrails are shown to be kept, and how many to be broken, at any of the looks (after so many blocks),
    where the candidate is `worse` by that share."""
    random = np.random.default_rng([seed, round(1000 * worse)])
    kept = broken = 0
    for _ in range(count):
        blocks = [_block(noise, -worse, random) for _ in range(max(looks))]
        found = [rail(blocks[:number], True, margin) for number in looks]
        kept += any(one.kept for one in found)
        broken += any(one.broken for one in found)
    return kept, broken


def aa_simulated(quick: bool) -> Row:
    """Nulls accepted of 1,000, at the engine's own noise and at others: by the rule, and by the best stopping time; and
    guardrails that lie at their margin, of as many, that someone who looks after every block once holds for settled."""
    count = 100 if quick else 1000
    noises = [*measured(), normal(0.02), normal(0.05), MADE_FOR, normal(0.10), heavy(0.05)]
    by_rule = {one.name: round(count * played(one, 0.0, count, 7).accepted) for one in noises}
    by_choice = {one.name: stubborn(one, count, 8) for one in noises}
    own = max(by_choice[one.name] for one in measured())
    looks = range(1, DESIGN.most_blocks + 1)
    rails = {one.name: guarded(one, MARGIN, MARGIN, looks, count, 9) for one in [*measured(), heavy(0.05)]}
    most = LEVEL * count + 3 * math.sqrt(LEVEL * (1 - LEVEL) * count)
    return {
        "value": own,
        "goal": "<= 4 of 1,000, any stopping time, at the measured noise; guardrails at their level",
        "ok": None if quick else own <= 4 and max(max(ends) for ends in rails.values()) <= most,
        "gates": count,
        "level": DESIGN.level,
        "accepted by its own rule": by_rule,
        "accepted at the best stopping time": by_choice,
        f"guardrails at their margin of {MARGIN:.0%} held for kept, for broken, at any look": rails,
    }


def power(quick: bool) -> Row:
    """Share of confirmations that accept a true gain, against what a plan would foretell of a 10 % one."""
    count = 40 if quick else 400
    table: dict[str, dict[str, float]] = {}
    least = 1.0
    for one in [*measured(), normal(0.05), normal(0.06), MADE_FOR, normal(0.10), heavy(0.05)]:
        shares = {f"{truth:.0%}": played(one, truth, count, 3).accepted for truth in TRUTHS[1:]}
        told = foreseen_power(DESIGN.most_blocks, _log(0.10), _log(DESIGN.min_effect), one.spread, DESIGN.level)
        table[one.name] = {"noise": round(one.spread, 4), **shares, "foretold of 10%": round(told, 2)}
        if one.name.startswith("measured"):
            least = min(least, shares["10%"])
    return {
        "value": least,
        "goal": ">= 0.90 of true 10 % gains at the measured noise; 5 % reported",
        "ok": None if quick else least >= 0.90,
        "gates each": count,
        "most launches": 4 * DESIGN.most_blocks,
        "accepted": table,
        "guardrails of 5 % shown to be kept, nothing having changed, after 2, 3, 6 and 14 blocks": {
            one.name: [round(guarded(one, 0.0, MARGIN, [looks], count, 4)[0] / count, 2) for looks in (2, 3, 6, 14)]
            for one in measured()
        },
    }


def trials_saved(quick: bool) -> Row:
    """Launches on average against a design of fixed size: the same blocks, the exact rank test and the least effect,
    once, at the end, and a 10 % gain found as often.

    The fixed size is an oracle's, who knows the very noise and takes the fewest blocks with our power at it. Beside it
    stands what someone needs who has to fix the size before the noise is known, and wants our power up to the noise
    that the default design is made for.
    """
    count = 60 if quick else 300
    promised = played(MADE_FOR, 0.10, count, 5).accepted
    size = 4 * _fixed_blocks(MADE_FOR, promised, 2 * count)
    table: dict[str, dict[str, float]] = {}
    shares: dict[str, list[float]] = {"fixed": [], "oracle": []}
    for one in [*measured(), normal(0.05), MADE_FOR]:
        ends = {truth: played(one, truth, count, 5) for truth in TRUTHS}
        known = 4 * _fixed_blocks(one, ends[0.10].accepted, 2 * count)
        table[one.name] = {
            "noise": round(one.spread, 4),
            "power at 10%": round(ends[0.10].accepted, 3),
            **{f"launches at {truth:.0%}": round(end.launches, 1) for truth, end in ends.items()},
            "an oracle's fixed launches": known,
        }
        if one.name.startswith("measured"):
            average = sum(end.launches for end in ends.values()) / len(ends)
            shares["fixed"].append(average / size)
            shares["oracle"].append(average / known)
    value = {name: round(sum(found) / len(found), 3) for name, found in shares.items()}
    return {
        "value": value["oracle"],
        "goal": f"<= {SHARE} of a fixed design's launches, averaged over true gains of 0, 5, 10 and 20 %",
        "ok": None if quick else value["oracle"] <= SHARE,
        "why": f"{4 * least_blocks(DESIGN.level)} launches are the fewest that can be sure at level {DESIGN.level:g}, "
        "fixed or not: at a low noise only nulls are cheaper",
        "of a size fixed before the noise is known": value["fixed"],
        "that size": size,
        "power of both at 10 % and the noise it is made for": round(promised, 3),
        "by noise": table,
    }


def _fixed_blocks(noise: Noise, wanted: float, count: int) -> int:
    """The fewest blocks with which a test at the end accepts a 10 % gain with probability `wanted`."""
    random = np.random.default_rng(23)
    samples = [[_block(noise, 0.10, random) for _ in range(4 * DESIGN.most_blocks)] for _ in range(count)]
    for blocks in range(least_blocks(DESIGN.level), 4 * DESIGN.most_blocks + 1):
        if np.mean([_fixed_accepts(sample[:blocks]) for sample in samples]) >= wanted:
            return blocks
    return 4 * DESIGN.most_blocks


@cache
def _log(gain: float) -> float:
    return log_gain(gain, DESIGN.lower_is_better)


def _fixed_accepts(blocks: Sequence[BlockValues]) -> bool:
    p = aligned_rank_p([block.favourable(DESIGN.lower_is_better) for block in blocks])
    return p <= DESIGN.level and 1 - blocked_ratio(blocks) >= DESIGN.min_effect
