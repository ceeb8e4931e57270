"""Opinion: what one part of the oracle thinks of a config, with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from tools.targets.target import FailureKind

__all__ = ["LEAST_CHANCE", "MOST_CHANCE", "Opinion", "learned"]

LEAST_CHANCE, MOST_CHANCE = 0.02, 0.98
"""That a config runs is never certain; nor that it fails, where launches alone say so: another may refute them."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """A chance with the failure that is feared and why."""

    chance: float
    "That the config runs. 0 is certain not to, and nothing that was learned says so."
    kind: FailureKind
    sentence: str


def learned(chance: float, kind: FailureKind, sentence: str) -> Opinion:
    """An opinion that rests on launches, held within what such an opinion may claim."""
    return Opinion(min(max(chance, LEAST_CHANCE), MOST_CHANCE), kind, sentence)
