"""Marginals: what is compared of a log and its twin, and by how much two samples differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.traces.conversations import LoggedConversation

__all__ = ["NAMES", "Floats", "Marginals", "ks_distance"]

Floats = NDArray[np.float64]

_DECIMALS = 3
"Of a second: a finer clock than logs have would tell equal gaps from equal gaps."

NAMES = ("prompt_tokens", "output_tokens", "start_gap_s", "turn_gap_s")


@dataclass(frozen=True)
class Marginals:
    """Samples, each in the order of the conversations they come from."""

    prompt_tokens: Floats
    output_tokens: Floats
    start_gap_s: Floats
    "Between the starts of conversations, in order of start."
    turn_gap_s: Floats
    "From an answer to the conversation's next request."

    @classmethod
    def of(cls, conversations: Sequence[LoggedConversation]) -> Marginals:
        requests = [request for conversation in conversations for request in conversation.requests]
        starts = np.sort(np.array([conversation.start_s for conversation in conversations]))
        gaps = [gap for conversation in conversations for gap in conversation.pauses_s()]
        return cls(
            np.array([request.prompt_tokens for request in requests], dtype=float),
            np.array([request.output_tokens for request in requests], dtype=float),
            np.diff(starts).round(_DECIMALS),
            np.array(gaps, dtype=float).round(_DECIMALS),
        )

    def distances(self, other: Marginals) -> dict[str, float]:
        """Kolmogorov-Smirnov distance per marginal that both have."""
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in NAMES}
        return {name: ks_distance(ours, theirs) for name, (ours, theirs) in pairs.items() if len(ours) and len(theirs)}


def ks_distance(first: Floats, second: Floats) -> float:
    """The largest difference of two samples' empirical distribution functions, 0 to 1 (Kolmogorov-Smirnov).

    Raises:
        ValueError: an empty sample.
    """
    if not len(first) or not len(second):
        raise ValueError("expected two samples, found an empty one")
    first, second = np.sort(first), np.sort(second)
    points = np.concatenate([first, second])
    ours = np.searchsorted(first, points, side="right") / len(first)
    theirs = np.searchsorted(second, points, side="right") / len(second)
    return float(np.abs(ours - theirs).max())
