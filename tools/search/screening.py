"""Screening: cheaper trials, with fewer requests, where this run has proven that they rank configs like full ones.

The share of pairs of configs that both kinds of trial put in the same order, (1 + Kendall's tau) / 2, is a U-statistic
of order two. It lies above its expectation by chance no more easily than the mean of n / 2 independent pairs (Hoeffding
1963, section 5), so Chernoff's bound on that mean bounds the truth from below. Ten configs that agree throughout prove
a share of 0.55, thirty one of 0.82: screening is for long runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from tools.search.observation import Observation
from tools.search.problem import Problem
from tools.search.turn import key_of

__all__ = ["Ranking", "ranking", "screening_pairs"]

_STEPS = 60
"Halvings in the search for the bound."


@dataclass(frozen=True, slots=True)
class Ranking:
    """How well cheap trials rank like full ones."""

    configs: int
    agreeing: float
    "Share of pairs of configs in the same order, or too near each other for the order to matter."
    at_least: float
    "What that share truly is, with confidence 1 - alpha."
    proven: bool

    @property
    def tau(self) -> float:
        """Kendall's rank correlation, near pairs counting as agreeing."""
        return 2 * self.agreeing - 1


def ranking(
    pairs: Sequence[tuple[float, float]], *, tolerance: float, wanted: float = 0.8, alpha: float = 0.05
) -> Ranking:
    """Whether cheap trials may stand for full ones.

    Args:
        pairs: of each config the objective of its cheap trial and of its full one; positive.
        tolerance: relative difference between two full trials below which their order doesn't matter.
        wanted: share of pairs in the same order that has to be proven.
    """
    if len(pairs) < 2:
        return Ranking(len(pairs), 0.0, 0.0, False)
    agreed = [_agree(one, other, tolerance) for one, other in combinations(pairs, 2)]
    share = sum(agreed) / len(agreed)
    least = _lower_bound(share, len(pairs) // 2, alpha)
    return Ranking(len(pairs), share, least, least >= wanted)


def screening_pairs(problem: Problem, history: Sequence[Observation], fidelity: float) -> list[tuple[float, float]]:
    """The configs that were measured both in full and with `fidelity`, as pairs for `ranking`."""
    cheap: dict[object, float] = {}
    full: dict[object, float] = {}
    for seen in history:
        if seen.ran and seen.objective is not None and seen.fidelity in (fidelity, 1.0):
            (full if seen.fidelity == 1.0 else cheap)[key_of(problem.space.reduce(seen.patch))] = seen.objective
    return [(cheap[key], full[key]) for key in cheap if key in full]


def _agree(one: tuple[float, float], other: tuple[float, float], tolerance: float) -> bool:
    if max(one[1], other[1]) <= min(one[1], other[1]) * (1 + tolerance):
        return True
    return (one[0] - other[0]) * (one[1] - other[1]) > 0


def _lower_bound(share: float, samples: int, alpha: float) -> float:
    """The least truth under which a mean of `samples` as high as `share` has a chance above `alpha` by Chernoff."""
    low, high = 0.0, share
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if samples * _divergence(share, middle) > -math.log(alpha):
            low = middle
        else:
            high = middle
    return low


def _divergence(share: float, truth: float) -> float:
    """Kullback and Leibler's, of two coins; in nats."""
    if truth <= 0:
        return math.inf if share > 0 else 0.0
    total = share * math.log(share / truth) if share > 0 else 0.0
    return total + ((1 - share) * math.log((1 - share) / (1 - truth)) if share < 1 else 0.0)
