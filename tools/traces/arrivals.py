"""Arrivals of a log: their rate, burstiness and daily season, as the renewal process that a workload spec holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tools.measure.arrivals import ArrivalSpec, Burst, Poisson, Renewal, Season
from tools.traces.marginals import Floats

__all__ = ["DAY_S", "busy_s", "daily_season", "dispersion", "fit_arrivals", "rank_correlation"]

DAY_S = 86400.0
_HOURS = 24
_QUARTERS = 4
_MOST_HOURS = 20 * 366 * 24
"A longer log is one with a broken stamp in it."
_PARTS = 256
_FEWEST = 8
"Gaps below which quantiles would only repeat the sample."
_SURE = 1e-4
"Chance of an hourly profile this uneven without a season, above which none is claimed."


def fit_arrivals(starts_s: Sequence[float]) -> ArrivalSpec:
    """The arrivals that `starts_s` (ascending) look like: renewal with the gaps' own quantiles, their persistence and,
    from a whole day of log on, the hours' weights. All at one moment is a burst; very few are taken for Poisson."""
    starts = np.asarray(starts_s, dtype=float)
    span_s = float(starts[-1] - starts[0]) if len(starts) else 0.0
    if span_s <= 0:
        return Burst(kind="burst")
    if len(starts) <= _FEWEST:
        return Poisson(kind="poisson", rate_rps=_short((len(starts) - 1) / span_s))
    season = daily_season(starts)
    gaps = np.diff(busy_s(starts - starts[0], season) if season is not None else starts)
    mean_s = float(gaps.mean())
    return Renewal(
        kind="renewal",
        rate_rps=_short(1 / mean_s),
        gaps=_quantiles(gaps / mean_s),
        persistence=round(min(max(rank_correlation(gaps[:-1], gaps[1:]), -0.99), 0.99), 4),
        season=season,
    )


def daily_season(starts: Floats) -> Season | None:
    """Relative rates of the 24 hours that follow the first start; None for less than a day, or where the hours differ
    no more than chance would have it.

    An analysis of variance of quarter-hour counts by hour of the day. Counts of one hour and day aren't independent in
    bursty traffic, hence the strict level.
    """
    from scipy.stats import f

    elapsed = starts - starts[0]
    hour_s = DAY_S / _HOURS
    whole_hours = int(elapsed[-1] // hour_s)
    if not _HOURS <= whole_hours <= _MOST_HOURS:
        return None
    counts = np.bincount((elapsed // (hour_s / _QUARTERS)).astype(int))[: whole_hours * _QUARTERS].astype(float)
    hours = np.arange(len(counts)) // _QUARTERS % _HOURS
    groups = [counts[hours == hour] for hour in range(_HOURS)]
    means = np.array([group.mean() for group in groups])
    between = sum(len(group) * (mean - counts.mean()) ** 2 for group, mean in zip(groups, means, strict=True))
    within = sum(float(((group - mean) ** 2).sum()) for group, mean in zip(groups, means, strict=True))
    freedom = (_HOURS - 1, len(counts) - _HOURS)
    if within <= 0 or f.sf((between / freedom[0]) / (within / freedom[1]), *freedom) > _SURE:
        return None
    weights = means / means.mean()
    return Season(period_s=DAY_S, weights=tuple(round(float(weight), 4) for weight in weights))


def busy_s(elapsed: Floats, season: Season) -> Floats:
    """Seconds of mean-rate traffic by `elapsed` seconds from a period's start: the inverse of `Season.clock`."""
    weights = np.asarray(season.weights)
    holds = season.period_s / len(weights) * weights / weights.mean()
    marks = np.linspace(0, season.period_s, len(weights) + 1)
    whole, rest = np.divmod(elapsed, season.period_s)
    inside: Floats = np.interp(rest, marks, np.concatenate([[0.0], np.cumsum(holds)]))
    return whole * season.period_s + inside


def dispersion(starts: Floats, window_s: float) -> float | None:
    """Index of dispersion of the counts in windows of `window_s`: variance / mean, 1 for Poisson; None below 20
    windows."""
    windows = int((starts[-1] - starts[0]) // window_s)
    if windows < 20:
        return None
    # By the windows that hold any: one stray stamp can make a log of billions of windows.
    places, counts = np.unique((starts - starts[0]) // window_s, return_counts=True)
    counts = counts[places < windows]
    mean = counts.sum() / windows
    return float(((counts.astype(float) ** 2).sum() - windows * mean**2) / (windows - 1) / mean)


def rank_correlation(first: Floats, second: Floats) -> float:
    """Spearman's, ties at their mean rank; 0 where one doesn't vary."""
    if len(first) < 3 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def _quantiles(gaps: Floats) -> tuple[float, ...]:
    """Quantiles of gaps of mean 1, the last one such that the straight lines between them have mean 1 too: a long tail
    would else make every other gap too short.

    Hazen's (each of n gaps stands for the middle of its n-th), and no more of them than there are gaps: then the lines'
    mean is the gaps' own but for their ends, and little is left to correct.
    """
    parts = min(_PARTS, len(gaps))
    found = np.quantile(gaps, np.linspace(0, 1, parts + 1), method="hazen")
    but_last = (float(np.trapezoid(found[:-1])) + found[-2] / 2) / parts
    found[-1] = max((1 - but_last) * 2 * parts, found[-2])
    return tuple(_short(float(gap)) for gap in np.maximum.accumulate(found))


def _short(value: float) -> float:
    return float(f"{value:.6g}")
