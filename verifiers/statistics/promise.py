"""Promise: does one arm clearly keep a bound that the other clearly misses?"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["clearly_broken"]


def clearly_broken(
    baseline: Sequence[float], candidate: Sequence[float], bound: float, room: float, step: float = 0.0
) -> bool:
    """Whether every launch of the baseline keeps `bound`, and every launch of the candidate misses it by more than the
    share `room` (and `step`, in the metric's own unit), and is twice as far from the baseline's worst.

    No test: two launches of each at one load can't be sure of anything. A config that doesn't touch the metric, whose
    value lies at its bound, hardly ever looks like this by chance.
    """
    if not baseline or not candidate:
        return False
    worst, best = max(baseline), min(candidate)
    return worst <= bound and best > bound * (1 + room) + step and best > worst * (1 + 2 * room) + step
