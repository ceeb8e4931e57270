"""Percentiles and shares with their exact or near-exact intervals, for independent samples.

Distribution-free: nothing is assumed normal. `dependence.py` has what holds for the requests of one queue.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

__all__ = ["Interval", "percentile", "percentile_interval", "wilson_interval"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided confidence interval, both ends included."""

    low: float
    high: float


def percentile(ascending: Sequence[float], share: float) -> float | None:
    """The `share` quantile (0 to 1) of samples in ascending order, by linear interpolation: type 7, numpy's default
    (Hyndman & Fan 1996). Samples may be infinite; None where the answer would be, and for no samples."""
    if not ascending:
        return None
    place = share * (len(ascending) - 1)
    below = math.floor(place)
    weight = place - below
    value = ascending[below]
    if weight > 0:
        value += weight * (ascending[below + 1] - value) if math.isfinite(value) else 0.0
    return value if math.isfinite(value) else None


def percentile_interval(ascending: Sequence[float], share: float, confidence: float = 0.95) -> Interval | None:
    """Exact interval of the `share` quantile from order statistics (David & Nagaraja, Order Statistics, § 7.1).

    The number of samples below the true quantile is binomial(n, share); the ends are the samples whose ranks leave at
    most (1 - confidence) / 2 of it on either side. None where no sample can be an end: at 95 %, a P99 needs 368
    samples, a P95 72, a median 6. None too where an end is infinite.
    """
    n = len(ascending)
    tail = (1 - confidence) / 2
    first, masses = _binomial_masses(n, share)
    low = _lowest_rank(first, masses, tail)
    # Ranks from above are the same question about the mirrored binomial.
    mirrored_first = n - (first + len(masses) - 1)
    high = n + 1 - _lowest_rank(mirrored_first, masses[::-1], tail)
    if low < 1 or high > n:
        return None
    interval = Interval(ascending[low - 1], ascending[high - 1])
    return interval if math.isfinite(interval.high) and math.isfinite(interval.low) else None


def wilson_interval(successes: float, trials: float, confidence: float = 0.95) -> Interval | None:
    """Interval of a share (Wilson 1927): good at 0, at 1 and for few trials. None for no trials.

    Effective numbers, of dependent trials, needn't be whole.

    Raises:
        ValueError: more successes than trials, or fewer than none.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"expected 0 <= successes <= trials, found {successes} of {trials}")
    if trials == 0:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = successes / trials
    scale = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    # At the borders the formula gives exactly 0 and 1; only rounding says otherwise.
    return Interval(
        0.0 if successes == 0 else max(centre - half, 0.0),
        1.0 if successes == trials else min(centre + half, 1.0),
    )


def _lowest_rank(first: int, masses: Sequence[float], tail: float) -> int:
    """The highest rank r with P(binomial <= r - 1) <= tail; `first` or less where there is none above it."""
    below = 0.0
    for index, mass in enumerate(masses):
        below += mass
        if below > tail:
            return first + index
    return first + len(masses)


def _binomial_masses(n: int, p: float) -> tuple[int, list[float]]:
    """(first k, [P(k), P(k + 1), ...]) of binomial(n, p) around its mode, all that weigh more than 1e-20."""
    mode = min(int((n + 1) * p), n)
    log_mass = math.lgamma(n + 1) - math.lgamma(mode + 1) - math.lgamma(n - mode + 1)
    at_mode = math.exp(log_mass + mode * math.log(p) + (n - mode) * math.log1p(-p))
    odds = p / (1 - p)
    above = [at_mode]
    for k in range(mode, n):
        mass = above[-1] * odds * (n - k) / (k + 1)
        if mass < 1e-20:
            break
        above.append(mass)
    below: list[float] = []
    mass = at_mode
    for k in range(mode, 0, -1):
        mass *= k / ((n - k + 1) * odds)
        if mass < 1e-20:
            break
        below.append(mass)
    return mode - len(below), below[::-1] + above
