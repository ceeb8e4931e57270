"""Paired comparison of scores: the same items, answered by both arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean

__all__ = ["Paired", "paired", "sign_p"]


@dataclass(frozen=True, slots=True)
class Paired:
    """What the pairs say. Scores are from 0 to 1."""

    items: int
    baseline: float
    "Mean score of the baseline's launches."
    candidate: float
    worse: int
    "Items whose mean over the candidate's launches is below that over the baseline's."
    better: int
    own_gap: float
    "How far the baseline's launches differ in their mean score: largest less smallest."
    unsteady: int
    "Items on which the baseline's launches differ with each other."

    @property
    def drop(self) -> float:
        return self.baseline - self.candidate

    @property
    def p(self) -> float:
        """One-sided exact sign test that the candidate is no worse; see `sign_p`."""
        return sign_p(self.worse, self.better)


def paired(baseline: Sequence[Mapping[str, float]], candidate: Sequence[Mapping[str, float]]) -> Paired:
    """Compare two arms; each launch is a mapping of item to score.

    Raises:
        ValueError: a launch answered other items, or there are none.
    """
    launches = [*baseline, *candidate]
    if not baseline or not candidate or not launches[0] or any(run.keys() != launches[0].keys() for run in launches):
        raise ValueError("a paired comparison needs the same items of every launch, and at least one")
    before = {item: fmean(run[item] for run in baseline) for item in launches[0]}
    after = {item: fmean(run[item] for run in candidate) for item in launches[0]}
    means = [fmean(run.values()) for run in baseline]
    return Paired(
        items=len(before),
        baseline=fmean(before.values()),
        candidate=fmean(after.values()),
        worse=sum(after[item] < before[item] for item in before),
        better=sum(after[item] > before[item] for item in before),
        own_gap=max(means) - min(means),
        unsteady=sum(len({run[item] for run in baseline}) > 1 for item in before),
    )


def sign_p(worse: int, better: int) -> float:
    """Probability of at least `worse` falls among `worse` + `better` changes, if either way were as likely.

    Flips of near-ties go either way alike, so this is exact under the null that the arms say the same; ties carry
    nothing. Source: Dixon and Mood, The statistical sign test, 1946.
    """
    changes = worse + better
    return sum(comb(changes, count) for count in range(worse, changes + 1)) / (1 << changes)
