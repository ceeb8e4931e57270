"""Truth: what a config's score would come to over many launches, from the few that were recorded of it and its kin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import OptimizeResult, minimize

from tools.targets.knobs import Value

__all__ = ["truths"]

Array = NDArray[np.float64]

_STARTS = ((0.3, 1.0), (0.3, 4.0), (0.1, 2.0))
"""Spread of the scores (logarithm) and length in levels, from which the likelihood is climbed."""


def truths(
    configs: Sequence[Mapping[str, Value]], means: Sequence[float], launches: Sequence[int], noise: float
) -> Array:
    """The true score of each config: its mean, drawn towards what its neighbours say.

    The best of 200 single launches looks better by two or three times the noise than it is, and so does whoever found
    it. This is the best linear unbiased prediction (kriging): log scores are a Gaussian process over the grid, levels
    in their order and words apart, plus what is a config's own, plus the noise of its launches, which was measured by
    launching again. Lengths, spread and the configs' own share are those of the greatest likelihood. The more a config
    was launched, the more its own mean counts.

    Args:
        means: mean score of each config's launches, above 0.
        launches: how many there were.
        noise: relative standard deviation of one launch.
    """
    observed = np.log(np.asarray(means, float))
    middle = observed.mean()
    apart, own_noise = _apart(configs), noise**2 / np.asarray(launches, float)
    if not own_noise.any():
        return np.exp(observed)
    fits = [_fit(apart, observed - middle, own_noise, *start) for start in _STARTS]
    covariance = _covariance(apart, min(fits, key=lambda fit: float(fit.fun)).x)
    factor = cho_factor(covariance + np.diag(own_noise))
    found: Array = np.exp(middle + covariance @ cho_solve(factor, observed - middle))
    return found


def _apart(configs: Sequence[Mapping[str, Value]]) -> Array:
    """[knobs, configs, configs]: how many levels two configs lie apart; words and switches 0 or 1."""
    found = []
    for name in sorted({name for config in configs for name in config}):
        values = [config.get(name) for config in configs]
        numbers = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        ordered = len(numbers) == len(values)
        levels: Sequence[object] = sorted(set(numbers)) if ordered else sorted({str(value) for value in values})
        places = np.array([levels.index(value if ordered else str(value)) for value in values], float)
        distance = abs(places[:, None] - places[None, :])
        found.append(distance if ordered else (distance > 0).astype(float))
    return np.array(found)


def _covariance(apart: Array, parameters: Array) -> Array:
    """Matern 3/2 over the levels of each knob, multiplied, and each config's own part on the diagonal."""
    spread, own, *lengths = np.exp(parameters)
    scaled = math.sqrt(3) * apart / np.asarray(lengths)[:, None, None]
    alike = np.prod((1 + scaled) * np.exp(-scaled), axis=0)
    covariance: Array = spread**2 * alike + own**2 * np.eye(apart.shape[1])
    return covariance


def _fit(apart: Array, values: Array, own_noise: Array, spread: float, length: float) -> OptimizeResult:
    """The parameters of the greatest likelihood near a start: spread, own part, a length for each knob; logarithms."""

    def unlikely(parameters: Array) -> float:
        factor = cho_factor(_covariance(apart, parameters) + np.diag(own_noise))
        return float(0.5 * values @ cho_solve(factor, values) + np.log(np.diag(factor[0])).sum())

    start = np.log([spread, 0.02, *[length] * len(apart)])
    of_length = (math.log(0.3), math.log(100))
    bounds = [(math.log(0.01), math.log(3)), (math.log(1e-3), math.log(0.3)), *[of_length] * len(apart)]
    return minimize(unlikely, start, method="L-BFGS-B", bounds=bounds)
