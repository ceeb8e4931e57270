"""Distribution: a sample in a few numbers, and the simplest family that it looks like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tools.traces.marginals import Floats

__all__ = ["Distribution", "Fit"]

_PERCENTS = (1, 10, 25, 50, 75, 90, 99)


@dataclass(frozen=True, slots=True)
class Fit:
    """A family with the sample's moments."""

    family: str
    ks: float
    "Kolmogorov-Smirnov distance from the sample, 0 to 1: how much to believe it."


@dataclass(frozen=True)
class Distribution:
    """A sample's size, moments and quantiles (type 7), in the sample's own unit."""

    count: int
    mean: float
    std: float
    quantiles: dict[str, float]
    "min, p1 to p99, max."
    fit: Fit | None
    "None where the sample doesn't vary."

    @classmethod
    def of(cls, values: Sequence[float] | Floats) -> Distribution | None:
        """None of an empty sample."""
        sample = np.sort(np.asarray(values, dtype=float))
        if not len(sample):
            return None
        quantiles = {"min": float(sample[0])}
        quantiles |= {f"p{percent}": float(np.percentile(sample, percent)) for percent in _PERCENTS}
        quantiles["max"] = float(sample[-1])
        return cls(len(sample), float(sample.mean()), float(sample.std()), quantiles, _fit(sample))

    def to_json(self) -> dict[str, Any]:
        fit = None if self.fit is None else {"family": self.fit.family, "ks": self.fit.ks}
        return {"count": self.count, "mean": self.mean, "std": self.std, **self.quantiles, "fit": fit}


def _fit(sample: Floats) -> Fit | None:
    """The closest of log-normal and gamma (by moments, the former's of the logarithms) and uniform."""
    from scipy import stats

    mean, variance = float(sample.mean()), float(sample.var())
    if variance <= 0:
        return None
    families = {"uniform": stats.uniform(sample[0], sample[-1] - sample[0])}
    if sample[0] > 0:
        logs = np.log(sample)
        families["log-normal"] = stats.lognorm(float(logs.std()), scale=float(np.exp(logs.mean())))
    if mean > 0:
        families["gamma"] = stats.gamma(mean**2 / variance, scale=variance / mean)
    steps = np.arange(len(sample) + 1) / len(sample)

    def distance(name: str) -> float:
        expected = families[name].cdf(sample)
        return float(max((steps[1:] - expected).max(), (expected - steps[:-1]).max()))

    best = min(families, key=distance)
    return Fit(best, distance(best))
