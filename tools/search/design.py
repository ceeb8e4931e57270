"""Design: which config would tell most about all the others, whatever it measures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.search.features import Apart, Features, Points

__all__ = ["told_by"]

_EFFECT, _LENGTH, _NOISE = 0.4, 0.7, 0.05
"Of every knob alike: nothing is known yet, and nothing that was measured is used."

_REFERENCES = 150
"Configs that stand for the whole space."


def told_by(features: Features, asked: Points, tried: Points, random: np.random.Generator) -> NDArray[np.float64]:
    """By how much a trial of each point of `asked` lowers the mean variance over the space, those of `tried` known.

    The sequential form of an integrated-variance design (Sacks et al. 1989): it prefers the middle of what is unknown
    to its corners, where configs crash.
    """
    rows = random.choice(len(asked), min(_REFERENCES, len(asked)), replace=False)
    space = asked.only(rows)
    known = _kernel(features.apart(tried, tried)) + _NOISE**2 * np.eye(len(tried))
    factor = np.linalg.cholesky(known)
    half = np.linalg.solve(factor, _kernel(features.apart(tried, asked)))
    shared = _kernel(features.apart(space, asked)) - half[:, rows].T @ half
    total = (1 + _EFFECT**2) ** len(features.names)
    left = total - (half**2).sum(axis=0) + _NOISE**2
    told: NDArray[np.float64] = (shared**2).mean(axis=0) / left
    return told


def _kernel(apart: Apart) -> NDArray[np.float64]:
    product = np.ones(apart.shape)
    for values, which in zip(apart.values, apart.which, strict=True):
        scaled = np.sqrt(3.0) * values / _LENGTH
        product *= (1 + _EFFECT**2 * (1 + scaled) * np.exp(-scaled))[which]
    return product
