"""Holm's step-down correction: several questions, one chance of being wrong about any."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["holm"]


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjusted p of each question: those at most alpha are shown, with at most alpha for any error among them all.

    Source: Holm, Scandinavian Journal of Statistics 6, 1979.
    """
    adjusted: dict[str, float] = {}
    worst = 0.0
    for place, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        worst = max(worst, min(1.0, p * (len(p_values) - place)))
        adjusted[name] = worst
    return adjusted
