"""Isotonic: the closest non-decreasing sequence, for what can only grow and was measured with noise."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["isotonic"]


def isotonic(values: Sequence[float], weights: Sequence[float] | None = None) -> list[float]:
    """The non-decreasing sequence with the least weighted squared distance to `values`.

    Pool adjacent violators (Ayer et al. 1955): a value below the one before it is merged with it into their mean,
    back to front until all is in order. Linear in the number of values.

    Raises:
        ValueError: not one weight above 0 for each value.
    """
    weights = [1.0] * len(values) if weights is None else weights
    if len(weights) != len(values) or any(weight <= 0 for weight in weights):
        raise ValueError(f"expected {len(values)} weights above 0, found {list(weights)}")
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        mean, mass, count = float(value), float(weight), 1
        while pools and pools[-1][0] > mean:
            before, before_mass, before_count = pools.pop()
            mean = (before * before_mass + mean * mass) / (before_mass + mass)
            mass, count = mass + before_mass, count + before_count
        pools.append((mean, mass, count))
    return [mean for mean, _, count in pools for _ in range(count)]
