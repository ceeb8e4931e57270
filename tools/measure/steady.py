"""Steady: where a load's start-up ends, by the marginal standard error rule MSER-5 (White 1997).

Of all points at which the start could be cut off, the rule takes the one after which the mean of the rest is known
best: least squared error over the squared number of what is left, of means of five. It is a place and no verdict: a
steady series has such a point too. Whether what lies before it differs from the rest is asked by `doubts/warm_up.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Steady", "steady_part"]

_BATCH = 5


@dataclass(frozen=True, slots=True)
class Steady:
    """How a series splits into a start and a steady part."""

    drop: int
    "Values at the start that don't belong to the steady part: a multiple of five."
    settled: bool
    "False where the best cut lies at the middle, the last place looked at: the series hadn't settled by then."


def steady_part(values: Sequence[float]) -> Steady:
    """Split `values`, in their order and finite, at the MSER-5 point. Fewer than 20 are never split."""
    batches = len(values) // _BATCH
    if batches < 4:
        return Steady(0, True)
    means = np.asarray(values[: batches * _BATCH], dtype=float).reshape(batches, _BATCH).mean(axis=1)
    left = np.arange(batches, 0, -1)
    sums = np.cumsum(means[::-1])[::-1]
    squares = np.cumsum((means**2)[::-1])[::-1]
    error = (squares - sums**2 / left) / left**2
    candidates = batches // 2 + 1
    cut = int(np.argmin(error[:candidates]))
    return Steady(cut * _BATCH, cut < candidates - 1)
