"""Surrogate: a Gaussian process for few, noisy trials of many knobs, its own parameters averaged over.

The kernel is t^2 * prod_j (1 + a_j^2 k(d_j / l_j)): a constant, one effect per knob and, where two knobs both matter,
their interaction (Durrande et al. 2012). k is a Matérn kernel of smoothness 3/2. No single set of parameters is
believed at ten trials: they are drawn from their posterior, by importance resampling from broad priors and a few
Metropolis steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.search.features import Apart

__all__ = ["Belief", "Surrogate"]

_DRAWN = 192
"Sets of parameters drawn from the priors, before the first look at the data."

_MOVES = 10
"Metropolis steps of each set that is kept."

_STEP = 0.45
"Standard deviation of a step, in units of the prior's."

_JITTER = 1e-6
"Variance added to every trial, as a share of t^2."

_DIGITS = 1e-10
"Least share of the kernel's own diagonal that is added: with many knobs it is so large that less is lost in rounding."

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Belief:
    """Priors of the parameters, each log-normal: (median, standard deviation of the logarithm)."""

    scale: tuple[float, float]
    "t: how far configs differ altogether, in the unit of the values."
    effect: tuple[float, float]
    "a_j: the effect of one knob, as a share of t."
    length: tuple[float, float]
    "l_j: the distance along a knob over which values are alike; the whole range is 1."
    noise: tuple[float, float]
    "Standard deviation of one value about the truth."


@dataclass(frozen=True)
class Surrogate:
    """What the trials so far say about every config."""

    parameters: Array
    "[sets, 2 * knobs + 2]: logarithms of a_j, l_j, t and the noise."
    factors: Array
    "[sets, trials, trials]: Cholesky factors of the kernel with noise."
    solved: Array
    "[sets, trials]: inverse kernel times values."

    @classmethod
    def fit(cls, apart: Apart, values: Array, belief: Belief, random: np.random.Generator, *, sets: int) -> Surrogate:
        """Learn from the `values` of trials that lie `apart`, with so many sets of parameters to be averaged over.

        `values` are about a prior mean of 0.
        """
        centre, spread = _priors(belief, len(apart))
        drawn = centre + spread * random.standard_normal((_DRAWN, len(centre)))
        likelihood, _, _ = _likelihood(drawn, apart, values)
        weight = np.exp(likelihood - likelihood.max())
        kept = drawn[random.choice(_DRAWN, sets, p=weight / weight.sum())]
        score, factors, solved = _scored(kept, apart, values, centre, spread)
        for _ in range(_MOVES):
            touched = random.random(kept.shape) < 0.5
            moved = kept + touched * _STEP * spread * random.standard_normal(kept.shape)
            new_score, new_factors, new_solved = _scored(moved, apart, values, centre, spread)
            taken = np.log(random.random(sets)) < new_score - score
            kept = np.where(taken[:, None], moved, kept)
            score = np.where(taken, new_score, score)
            factors = np.where(taken[:, None, None], new_factors, factors)
            solved = np.where(taken[:, None], new_solved, solved)
        return cls(kept, factors, solved)

    def predict(self, apart: Apart) -> tuple[Array, Array]:
        """Mean and standard deviation of the truth, without noise, at points that lie `apart` from the trials.

        Both are [sets, points].
        """
        across = _kernel(self.parameters, apart)
        mean = np.einsum("spn,sn->sp", across, self.solved)
        half = np.linalg.solve(self.factors, np.swapaxes(across, 1, 2))
        variance = _diagonal(self.parameters, len(apart))[:, None] - np.einsum("snp,snp->sp", half, half)
        return mean, np.sqrt(np.maximum(variance, 1e-12))

    @property
    def noise(self) -> float:
        """Posterior median of the noise."""
        return float(np.exp(np.median(self.parameters[:, -1])))


def _priors(belief: Belief, knobs: int) -> tuple[Array, Array]:
    rows = [belief.effect] * knobs + [belief.length] * knobs + [belief.scale, belief.noise]
    return np.log([median for median, _ in rows]), np.array([spread for _, spread in rows])


def _kernel(parameters: Array, apart: Apart) -> Array:
    """[sets, here, there]"""
    knobs = len(apart)
    effects, lengths = np.exp(2 * parameters[:, :knobs]), np.exp(parameters[:, knobs : 2 * knobs])
    shape = (len(parameters), *apart.shape)
    product = np.broadcast_to(np.exp(2 * parameters[:, -2])[:, None, None], shape).copy()
    for knob, (values, which) in enumerate(zip(apart.values, apart.which, strict=True)):
        scaled = np.sqrt(3.0) * values[None] / lengths[:, knob, None]
        factor = 1 + effects[:, knob, None] * (1 + scaled) * np.exp(-scaled)
        product *= factor[:, which]
    return product


def _diagonal(parameters: Array, knobs: int) -> Array:
    """[sets]: the kernel of any point with itself."""
    diagonal: Array = np.exp(2 * parameters[:, -2]) * np.prod(1 + np.exp(2 * parameters[:, :knobs]), axis=1)
    return diagonal


def _likelihood(parameters: Array, apart: Apart, values: Array) -> tuple[Array, Array, Array]:
    """Log likelihood up to a constant, Cholesky factors, and the inverse kernel times the values."""
    kernel = _kernel(parameters, apart)
    added = np.maximum(_JITTER * np.exp(2 * parameters[:, -2]), _DIGITS * _diagonal(parameters, len(apart)))
    noise = np.exp(2 * parameters[:, -1]) + added
    kernel += noise[:, None, None] * np.eye(len(values))
    factors = np.asarray(np.linalg.cholesky(kernel), dtype=np.float64)
    half = np.linalg.solve(factors, np.broadcast_to(values[:, None], (len(parameters), len(values), 1)))
    solved = np.linalg.solve(np.swapaxes(factors, 1, 2), half)[..., 0]
    logs = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    likelihood: Array = -0.5 * (half[..., 0] ** 2).sum(axis=1) - logs
    return likelihood, factors, solved


def _scored(parameters: Array, apart: Apart, values: Array, centre: Array, spread: Array) -> tuple[Array, Array, Array]:
    """Log posterior up to a constant, with the factors and solutions it was made from."""
    likelihood, factors, solved = _likelihood(parameters, apart, values)
    return likelihood - 0.5 * (((parameters - centre) / spread) ** 2).sum(axis=1), factors, solved
