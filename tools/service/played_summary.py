"""The flat metrics of a played load, by the same definitions as those of a measured one, over arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tools.measure.summary import MIN_SAMPLES_P99
from tools.service.simulate import Played

__all__ = ["FAMILIES", "STATISTICS", "played_summary"]

FAMILIES = ("ttft", "tpot", "itl", "e2el")
STATISTICS = ("mean", "p50", "p90", "p95", "p99")

Floats = NDArray[np.float64]


def played_summary(*played: Played, jitter_s: Sequence[float] = ()) -> dict[str, float]:
    """`{statistic}_{family}_ms` of all jobs of `played`, pooled; a P99 of fewer than 368 samples is absent.

    Args:
        jitter_s: quantiles, at equidistant probabilities, of what the stamps of a real load add to a gap between
            tokens. A played gap is exact and would have no tail.
    """
    found: dict[str, float] = {}
    for family in FAMILIES:
        parts = [getattr(part, f"{family}_s") for part in played]
        samples_s = np.concatenate(parts) if parts else np.empty(0)
        if family == "itl":
            samples_s = _jittered(samples_s, jitter_s)
        found |= {f"{name}_{family}_ms": 1000 * value for name, value in _statistics(samples_s).items()}
    return found


def _jittered(gaps_s: Floats, jitter_s: Sequence[float]) -> Floats:
    if not len(jitter_s) or not len(gaps_s):
        return gaps_s
    shares = (np.arange(len(gaps_s)) + 0.5) / len(gaps_s)
    added = np.interp(shares, np.linspace(0, 1, len(jitter_s)), jitter_s)
    np.random.default_rng(0).shuffle(added)  # any order that has nothing to do with the gaps
    return np.maximum(gaps_s + added, 0.0)


def _statistics(samples: Floats) -> dict[str, float]:
    """Mean and percentiles (type 7) of `samples`, in their unit; none of no samples."""
    if not len(samples):
        return {}
    shares = [0.50, 0.90, 0.95] + ([0.99] if len(samples) >= MIN_SAMPLES_P99 else [])
    percentiles = np.quantile(samples, shares).tolist()
    return {"mean": float(samples.mean())} | dict(zip(STATISTICS[1 : 1 + len(shares)], percentiles, strict=True))
