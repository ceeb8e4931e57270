"""Uniform numbers that depend on a request's seed and a token's position alone: nothing to keep, nothing to lose."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.seats import Index

__all__ = ["uniform"]


def uniform(seeds: NDArray[np.uint64], positions: Index) -> NDArray[np.float64]:
    """One number in [0, 1) for each pair, with 53 random bits.

    The `position`-th output of SplitMix64 seeded with `seed` (Steele, Lea, Flood: Fast splittable pseudorandom number
    generators, OOPSLA 2014), so that a preempted answer goes on as if nothing had happened.
    """
    with np.errstate(over="ignore"):
        mixed = seeds + (positions.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    numbers: NDArray[np.float64] = (mixed >> np.uint64(11)) * 2.0**-53
    return numbers
