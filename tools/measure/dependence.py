"""Dependence: how sure a percentile is when its samples come from one queue, where neighbours wait for the same reason.

An interval that takes requests as independent is several times too narrow on a busy server: at 80 % load it takes 25
requests of an M/M/1 queue to tell as much of its median as one independent request would. So samples are kept in the
order of their requests, and three things are worked out for a percentile q with share p below it:

1. The *inflation*: the variance of the share of samples <= q, over what it would be for independent samples. The
   variance comes from overlapping batch means (Meketon & Schmeiser 1984) of the indicator, with windows of an 8th, a
   12th and a 16th of the load; the largest counts, since too short a window misses slow swings, or their mean where the
   load is long against any swing. Samples of one request (its gaps) stand together as one cluster. Never below 1.
2. The *effective samples*: samples / inflation. Their order statistics bound q as in `percentile_interval`, on the
   scale of ranks (Woodruff 1952), with fewer degrees of freedom for an inflation that is itself an estimate (Korn &
   Graubard 1998). With an inflation of 1 the result is the exact interval.
3. Where samples are dependent and few effective ones lie beyond q, the upper end is at least that of *sectioning*
   (Nakayama 2014): the percentile in each of six stretches, a t interval of their logarithms. A load that saw few bad
   spells has both too low a tail and too low an inflation; the spread between its stretches is the better witness.

What it can't do: a load that never saw a bad spell can't know of it. Below about 10 effective samples beyond the
percentile the intervals cover less than they say; below 4 none is given. `docs/measuring.md` has the measured coverage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrik, stdtrit

from tools.measure.intervals import Interval, percentile_interval

__all__ = ["Certainty", "certainties", "inflation", "mean_error", "t_quantile"]

Values = NDArray[np.float64]

_PARTS = (8, 12, 16)
"The load's length over the windows' lengths."
_DEGREES_OF_FREEDOM = 1.5 * (_PARTS[0] - 1)
"Of overlapping batch means with windows of an 8th (Meketon & Schmeiser 1984)."
_LEVELS = (0.5, 0.9, 0.95, 0.99)
"Where a load's dependence is looked for."
_SECTIONS = 6
_DEPENDENT = 1.5
"An inflation above it is taken for real rather than for the estimate's own noise, and sections are looked at."
_SURELY_DEPENDENT = 2.2
"The largest inflation of the four levels of independent samples is below it in 95 % of loads."
_MANY_LOOKS = 100.0
"Effective samples beyond a percentile from which a load is long against its swings and has seen its share of them."
_LEAST_LOOKS = 4.0
"Fewest effective samples beyond a percentile, by the largest inflation of all, in a load that is surely dependent."


@dataclass(frozen=True, slots=True)
class Certainty:
    """How sure one percentile is."""

    interval: Interval | None
    "None where the load can't tell."
    samples: int
    effective_samples: float
    "As many independent samples would tell as much; at most the number there is."
    needed_samples: int
    "A load of about so many samples, as dependent as these, would have an interval."


def certainties(
    values: Sequence[float], shares: Sequence[float], *, sizes: Sequence[int] | None = None, confidence: float = 0.95
) -> tuple[Certainty, ...]:
    """How sure each `shares` quantile (0 to 1, exclusive) of `values` is, in the order of `shares`.

    `values` stand in the order of their requests and may be infinite. `sizes` says how many of them each request gave,
    one by default. With fewer than 16 requests dependence can't be seen and isn't assumed.

    Raises:
        ValueError: `sizes` don't add up to the number of values.
    """
    samples = np.asarray(values, dtype=float)
    if not samples.size:
        return tuple(Certainty(None, 0, 0.0, _least_effective(share, confidence)) for share in shares)
    starts = _starts(samples.size, sizes)
    ascending: list[float] = np.sort(samples).tolist()
    found = {share: _inflations(samples <= _at(ascending, share), starts) for share in {*shares, *_LEVELS}}
    busiest = max(found[level][0] for level in _LEVELS)
    return tuple(
        Certainty(
            _interval(samples, ascending, starts, share, found[share][1], busiest, confidence),
            samples=samples.size,
            effective_samples=samples.size / found[share][1],
            needed_samples=_needed(starts.size, share, found[share][1], busiest, confidence),
        )
        for share in shares
    )


def inflation(indicator: Sequence[bool]) -> float:
    """How many times the variance of the share of true values is that of independent ones; at least 1.

    The values stand in the order of their requests, one each.
    """
    flags = np.asarray(indicator, dtype=bool)
    return _inflations(flags, np.arange(flags.size))[1] if flags.size else 1.0


def mean_error(values: Sequence[float]) -> float:
    """Standard error of the mean of `values`, which stand in order and may depend on their neighbours.

    Compare it with `t_quantile(p, 10.5)`. Infinite for fewer than two values.
    """
    samples = np.asarray(values, dtype=float)
    if samples.size < 2:
        return math.inf
    excess: Values = samples - float(samples.mean())
    return math.sqrt(max(_batch_variances(excess)) / samples.size)


def t_quantile(probability: float, degrees_of_freedom: float) -> float:
    """The quantile of Student's t distribution; degrees of freedom needn't be whole."""
    return float(stdtrit(degrees_of_freedom, probability))


def _starts(count: int, sizes: Sequence[int] | None) -> NDArray[np.intp]:
    """Index of the first value of each request that has any."""
    if sizes is None:
        return np.arange(count)
    counted = np.asarray([size for size in sizes if size > 0], dtype=np.intp)
    if counted.sum() != count:
        raise ValueError(f"expected sizes that add up to {count} values, found {counted.sum()}")
    return np.cumsum(counted) - counted


def _inflations(below: NDArray[np.bool_], starts: NDArray[np.intp]) -> tuple[float, float]:
    """(by windows of an 8th of the load, what counts), each at least 1."""
    requests, samples, share = starts.size, below.size, float(below.mean())
    if not 0 < share < 1:
        return 1.0, 1.0
    if requests == 1:
        return (1.0, 1.0) if samples == 1 else (float(samples), float(samples))
    excess: Values = below.astype(float) - share
    if requests < samples:
        excess = np.add.reduceat(excess, starts)
    independent = samples * share * (1 - share) / requests
    found = [max(variance / independent, 1.0) for variance in _batch_variances(excess)]
    largest = max(found)
    looks = samples / largest * min(share, 1 - share)
    return found[0], largest if looks < _MANY_LOOKS else sum(found) / len(found)


def _batch_variances(excess: Values) -> list[float]:
    """n times the variance of the mean of n values in order, by overlapping batch means of each window.

    `excess` are the values less their mean, at least two.
    """
    count = excess.size
    sums = np.concatenate(([0.0], np.cumsum(excess)))
    found = []
    for parts in _PARTS:
        window = max(count // parts, 1)
        means = (sums[window:] - sums[:-window]) / window
        found.append(count * window / ((count - window) * (count - window + 1)) * float(means @ means))
    return found


def _interval(
    samples: Values,
    ascending: list[float],
    starts: NDArray[np.intp],
    share: float,
    inflated: float,
    busiest: float,
    confidence: float,
) -> Interval | None:
    exact = percentile_interval(ascending, share, confidence)
    effective = samples.size / (inflated * _penalty(starts.size, confidence))
    if exact is None or inflated <= 1 or effective >= samples.size:
        return exact
    tail = (1 - confidence) / 2
    # As in the exact interval: the extreme order statistics must be able to stand on either side. A few samples beyond
    # a tail percentile look clustered by chance; if nothing else says so, that takes no interval away.
    if max(share, 1 - share) ** effective > tail:
        return None if busiest > _SURELY_DEPENDENT else exact
    if busiest > _SURELY_DEPENDENT and samples.size / busiest * min(share, 1 - share) < _LEAST_LOOKS:
        return None
    stretch = (samples.size + 1) / (effective + 1)
    low, high = (
        _at_rank(ascending, (1 + float(bdtrik(probability, effective, share))) * stretch)
        for probability in (tail, 1 - tail)
    )
    if inflated > _DEPENDENT and effective * min(share, 1 - share) < _MANY_LOOKS:
        high = max(high, _upper_by_sections(samples, ascending, starts, share, confidence))
    interval = Interval(min(low, exact.low), max(high, exact.high))
    return interval if math.isfinite(interval.high) and math.isfinite(interval.low) else None


def _least_effective(share: float, confidence: float) -> int:
    """Fewest independent samples of which the quantile has an interval: 368 for a P99 at 95 %."""
    return math.ceil(math.log((1 - confidence) / 2) / math.log(max(share, 1 - share)))


def _needed(requests: int, share: float, inflated: float, busiest: float, confidence: float) -> int:
    least = _least_effective(share, confidence)
    if busiest <= _SURELY_DEPENDENT:
        return least
    as_dependent = least * max(inflated * _penalty(requests, confidence), 1.0)
    return math.ceil(max(as_dependent, _LEAST_LOOKS * busiest / min(share, 1 - share)))


def _penalty(requests: int, confidence: float) -> float:
    """What an estimated variance costs: the square of a t quantile over the normal one (Korn & Graubard 1998)."""
    tail = (1 + confidence) / 2
    t = t_quantile(tail, min(_DEGREES_OF_FREEDOM, max(requests - 1, 1)))
    return (t / NormalDist().inv_cdf(tail)) ** 2


def _upper_by_sections(
    samples: Values, ascending: list[float], starts: NDArray[np.intp], share: float, confidence: float
) -> float:
    """The upper end of the t interval that the quantiles of six stretches give around the whole load's quantile."""
    centre = _at(ascending, share)
    if starts.size < 2 * _SECTIONS or not centre > 0:
        return centre
    bounds = [*(starts[starts.size * part // _SECTIONS] for part in range(_SECTIONS)), samples.size]
    found = [_at(np.sort(samples[a:b]).tolist(), share) for a, b in pairwise(bounds)]
    if min(found) <= 0:
        return centre
    squares = sum(math.log(one / centre) ** 2 if math.isfinite(one) else math.inf for one in found)
    spread = math.sqrt(squares / (_SECTIONS * (_SECTIONS - 1)))
    exponent = t_quantile((1 + confidence) / 2, _SECTIONS - 1) * spread
    return centre * math.exp(exponent) if exponent < 700 else math.inf


def _at(ascending: list[float], share: float) -> float:
    """The `share` quantile, type 7; infinite where it would lie on or next to an infinite sample."""
    return _at_rank(ascending, 1 + share * (len(ascending) - 1))


def _at_rank(ascending: list[float], rank: float) -> float:
    """The order statistic of a rank between whole ones, from 1; those beyond the sample count as its ends."""
    place = min(max(rank - 1, 0.0), len(ascending) - 1.0)
    below = math.floor(place)
    value = ascending[below]
    if place > below:
        above = ascending[below + 1]
        value = value + (place - below) * (above - value) if math.isfinite(above) else above
    return value
