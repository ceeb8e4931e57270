"""Traffic: requests per second over a day, and what kind of requests they are."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tools.capacity.mix import Mix
from tools.errors import UserError

__all__ = ["DAY_S", "MOST_CV", "Traffic"]

DAY_S = 86_400.0
MOST_CV = 20.0
"""Burstier gaps are planned as if they were no burstier."""

Seconds = NDArray[np.float64]
Rates = NDArray[np.float64]

_PARTS = 12
"""An interval's rate is a percentile over the rates of its twelfths, on all days: an hour's, over five minutes each."""
_MOST_INTERVALS = 1440


@dataclass(frozen=True)
class Traffic:
    """A day in equal intervals. Where the log spans several days, its days are laid over each other."""

    rates_rps: tuple[float, ...]
    "Requests per second to plan for, by interval; the first begins at `start_s`."
    interval_s: float
    start_s: float
    "Time of day (UTC) at which the first interval begins, in seconds; 0 where `clock_known` is False."
    mean_rps: tuple[float, ...]
    "What comes on average in each interval: what tokens are counted by."
    source: str
    cv: float = 1.0
    "Coefficient of variation of the gaps between arrivals; 1 where the log doesn't tell."
    lengths: Mix | None = None
    "Of the requests, where the log has them."
    clock_known: bool = True
    """Whether `start_s` is a time of day. A workload counts from the first start of the log that it was made of, so its
    hours may be anybody's: its parts are told by their offset, and nothing may be scheduled by them."""

    @property
    def peak_rps(self) -> float:
        return max(self.rates_rps)

    @property
    def requests_a_day(self) -> float:
        """Requests in 24 hours; a log that covers less of a day stands for all of it."""
        return sum(self.mean_rps) / len(self.mean_rps) * DAY_S

    @classmethod
    def of_rates(
        cls, times_s: Seconds, rates: Rates, *, interval_s: float, percentile: float, growth: float, source: str
    ) -> Self:
        """From samples of the rate: (moment, requests per second), in any order.

        Raises:
            UserError: two rates of one moment, no traffic, or a part of the day of which nothing is told.
        """
        order = np.argsort(times_s, kind="stable")
        times_s, rates = times_s[order], rates[order]
        if (twice := times_s[1:][np.diff(times_s) == 0]).size:
            raise UserError(
                f"{source}: expected one rate a moment, found two for the time {twice[0]:.10g}; give the sum of what "
                "came in one row"
            )
        folded = np.mod(times_s, DAY_S)
        whole = times_s.max() - times_s.min() + _spacing(times_s) >= DAY_S
        start_s = 0.0 if whole else math.floor(folded[0] / interval_s) * interval_s
        count = _intervals(times_s, interval_s, whole, source)
        index = (np.mod(folded - start_s, DAY_S) // interval_s).astype(int)
        planned, mean = [], []
        for interval in range(count):
            inside = rates[index == interval]
            if not len(inside):
                at = start_s + interval * interval_s
                raise UserError(
                    f"{source}: no traffic is told for the {interval_s:g} s from {_clock(at)}; "
                    "give a log without holes (a zero is a value too), or a longer --interval"
                )
            planned.append(float(np.percentile(inside, percentile)) * growth)
            mean.append(float(inside.mean()) * growth)
        if max(planned) <= 0:
            raise UserError(f"{source}: expected some traffic, found none")
        return cls(tuple(planned), interval_s, start_s, tuple(mean), source)

    @classmethod
    def of_arrivals(cls, times_s: Seconds, *, interval_s: float, percentile: float, growth: float, source: str) -> Self:
        """From the moments at which requests came; their burstiness is measured too."""
        times_s = np.sort(times_s)
        if len(times_s) < 2 or times_s[-1] <= times_s[0]:
            raise UserError(f"{source}: expected at least two moments, found {len(np.unique(times_s))}")
        part_s = min(interval_s, DAY_S) / _PARTS
        first = math.floor(times_s[0] / part_s)
        bins = (times_s // part_s).astype(np.int64) - first
        counts = np.bincount(bins)
        rates = counts / part_s
        # The last part is cut off by the end of the log; what came in it came within less than part_s.
        if len(rates) > _PARTS:
            rates = rates[:-1]
        elif len(rates) < _PARTS:
            rates = np.array([len(times_s) / (times_s[-1] - times_s[0])])
        moments = (first + np.arange(len(rates)) + 0.5) * part_s
        found = cls.of_rates(moments, rates, interval_s=interval_s, percentile=percentile, growth=growth, source=source)
        return replace(found, cv=_burstiness(times_s, part_s))

    @classmethod
    def steady(cls, rate_rps: float, source: str, *, growth: float = 1.0, cv: float = 1.0) -> Self:
        """The same rate all day."""
        return cls((rate_rps * growth,), DAY_S, 0.0, (rate_rps * growth,), source, cv)

    @classmethod
    def of_season(
        cls, rate_rps: float, period_s: float, weights: tuple[float, ...], growth: float, source: str, cv: float
    ) -> Self:
        """From a mean rate and the relative rates of equal parts of a period; a day holds a whole number of periods.

        A season begins with its log, at a time of day that it doesn't tell.
        """
        rates = np.array(weights) / np.mean(weights) * rate_rps * growth
        repeats = max(round(DAY_S / period_s), 1)
        rates = np.tile(rates, repeats)
        if len(rates) > _MOST_INTERVALS:
            rates = rates.reshape(_MOST_INTERVALS, -1).max(axis=1) if len(rates) % _MOST_INTERVALS == 0 else rates
        values = tuple(rates.tolist())
        return cls(values, period_s * repeats / len(values), 0.0, values, source, cv, clock_known=False)

    def begin_s(self, index: int) -> float:
        """When an interval begins: the time of day (UTC), or the offset from the beginning where that isn't known."""
        offset_s = index * self.interval_s
        return (self.start_s + offset_s) % DAY_S if self.clock_known else offset_s

    @property
    def length_s(self) -> float:
        return self.interval_s * len(self.rates_rps)

    @property
    def repeats(self) -> bool:
        """Whether a whole day is known, so that the next may be expected to be like it."""
        return self.length_s >= DAY_S

    def at(self, seconds: float) -> float:
        """Rate at so many seconds after the beginning, never above what its interval is planned for.

        Linear: an interval's own rate at its middle where its neighbours are quieter, and the quieter one's rate where
        two intervals meet. Whole days repeat.
        """
        moments, rates = self._knots
        return float(np.interp(seconds % self.length_s if self.repeats else seconds, moments, rates))

    @cached_property
    def _knots(self) -> tuple[Seconds, Rates]:
        rates, count = self.rates_rps, len(self.rates_rps)
        moments, values = [], []
        for index in range(count):
            before = rates[index - 1] if index or self.repeats else rates[0]
            after = rates[(index + 1) % count] if index + 1 < count or self.repeats else rates[-1]
            moments.append(index * self.interval_s)
            values.append(min(before, rates[index]))
            if rates[index] > max(before, after):
                moments.append((index + 0.5) * self.interval_s)
                values.append(rates[index])
        moments.append(self.length_s)
        values.append(min(rates[-1], rates[0]) if self.repeats else rates[-1])
        return np.array(moments), np.array(values)

    def fastest_growth(self, within_s: float) -> float:
        """The largest factor by which the planned rate grows within so many seconds; at least 1."""
        moments = np.linspace(0.0, self.length_s, 4 * len(self.rates_rps) + 1)
        before = np.array([self.at(moment) for moment in moments])
        after = np.array([self.at(moment + within_s) for moment in moments])
        steep = after[before > 0.01 * self.peak_rps] / before[before > 0.01 * self.peak_rps]
        return max(float(steep.max()), 1.0)

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "interval_s": self.interval_s,
            "start_s": self.start_s,
            "clock_known": self.clock_known,
            "rates_rps": list(self.rates_rps),
            "mean_rps": list(self.mean_rps),
            "peak_rps": self.peak_rps,
            "requests_a_day": self.requests_a_day,
            "cv": self.cv,
        }


def _spacing(times_s: Seconds) -> float:
    return float(np.median(np.diff(np.sort(times_s)))) if len(times_s) > 1 else 0.0


def _intervals(times_s: Seconds, interval_s: float, whole: bool, source: str) -> int:
    if whole:
        count = DAY_S / interval_s
        if count != int(count) or not 1 <= count <= _MOST_INTERVALS:
            raise UserError(
                f"{source}: expected an interval that divides a day into 1 to {_MOST_INTERVALS} parts, "
                f"found {interval_s:g} s; give --interval 1h, 30m, 15m or 5m"
            )
        return int(count)
    first = math.floor(float(times_s.min()) / interval_s)
    return max(math.floor((float(times_s.max()) + _spacing(times_s) / 2) / interval_s) - first + 1, 1)


def _burstiness(times_s: Seconds, part_s: float) -> float:
    """Coefficient of variation of the gaps, each divided by the mean gap of its part: without the season."""
    gaps = np.diff(times_s)
    part = (times_s[1:] // part_s).astype(np.int64)
    _, place, counts = np.unique(part, return_inverse=True, return_counts=True)
    means = np.bincount(place, gaps) / counts
    usable = (counts >= 20)[place] & (means > 0)[place]
    if usable.sum() < 100:
        return 1.0
    return float(np.clip(np.std(gaps[usable] / means[place][usable]), 0.0, MOST_CV))


def _clock(seconds: float) -> str:
    minutes = int(seconds // 60) % 1440
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
