"""ArrayHistogram: a Prometheus histogram that takes a whole step's values at once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["COUNT_BOUNDS", "LATENCY_BOUNDS", "STEP_BOUNDS", "TOKEN_BOUNDS", "TOKEN_LATENCY_BOUNDS", "ArrayHistogram"]

_HALF_MILLISECONDS = tuple(n / 2000 for n in range(1, 41))
"0.5 ms apart up to 20 ms, where the tokens of a small model lie: vLLM's own begin at 10 ms."

TOKEN_LATENCY_BOUNDS = (
    *_HALF_MILLISECONDS,
    *(0.0225, 0.025, 0.0275, 0.03, 0.035, 0.04, 0.05, 0.06, 0.075, 0.08, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5),
    *(0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
"""Seconds; every bound of vLLM's for TTFT and for ITL is among them, so that a rule written for one works here."""

LATENCY_BOUNDS = (
    *(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0),
    *(60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
"""Seconds of a whole request; vLLM's, and finer below 0.3 s."""

STEP_BOUNDS = (
    *(1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 3e-4, 5e-4, 7.5e-4, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008),
    *(0.01, 0.0125, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0),
)
"""Seconds of a step or of a gap between two."""

TOKEN_BOUNDS = (1.0, 2.0, 5.0, *(float(m * 10**e) for e in range(1, 6) for m in (1, 2, 5)))
COUNT_BOUNDS = (0.0, *(float(1 << n) for n in range(15)))


class ArrayHistogram:
    """Cumulative buckets, as `prometheus_client.Histogram` has them. `bounds` are inclusive upper ends, ascending."""

    def __init__(self, bounds: Iterable[float]) -> None:
        self.bounds = tuple(float(bound) for bound in bounds)
        self.sum = 0.0
        self._bounds = np.array(self.bounds)
        self._counts: NDArray[np.int64] = np.zeros(len(self.bounds) + 1, np.int64)

    @property
    def count(self) -> int:
        return int(self._counts.sum())

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def observe_many(self, values: ArrayLike) -> None:
        """Each of `values`, a list or an array of one dimension."""
        array = np.asarray(values, np.float64)
        if array.size:
            places = np.searchsorted(self._bounds, array, side="left")
            self._counts += np.bincount(places, minlength=len(self._counts))
            self.sum += float(array.sum())

    def cumulative(self) -> list[tuple[str, int]]:
        """(upper end as Prometheus writes it, values up to it), the infinite one last."""
        names = (*map(repr, self.bounds), "+Inf")
        return list(zip(names, self._counts.cumsum().tolist(), strict=True))
