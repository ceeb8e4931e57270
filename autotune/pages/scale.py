"""Scale: from values to a place between 0 and 1, with the round values that are worth a mark."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Scale"]

_LEAST_TICKS, _MOST_TICKS = 3, 8
_LEAST = 1e-12
_ROUND = (1.0, 2.0, 2.5, 5.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """Linear, or logarithmic where `log`; `low` < `high`, both above 0 where logarithmic."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    "Between two marks of a linear scale; chosen round where not given."

    @classmethod
    def linear(cls, values: Iterable[float]) -> Scale:
        """Round ends around 0 and the finite of `values`. 0 to 1 for none."""
        finite = [value for value in values if math.isfinite(value)]
        low, high = min(finite, default=0.0), max(finite, default=1.0)
        low, high = _apart(min(low, 0.0), max(high, 0.0))
        step = _step(high - low)
        return cls(math.floor(low / step) * step, math.ceil(high / step) * step)

    @classmethod
    def span(cls, values: Iterable[float]) -> Scale:
        """From 0, or the lowest where that is below, to the highest of the finite `values`, not rounded. 0 to 1 for
        none."""
        finite = [value for value in values if math.isfinite(value)]
        low, high = min(finite, default=0.0), max(finite, default=1.0)
        return cls(*_apart(min(low, 0.0), high))

    @classmethod
    def logarithmic(cls, values: Iterable[float]) -> Scale:
        """A little room around the finite of `values` that are above 0 in earnest (1e-12). 1 to 10 for none."""
        positive = [value for value in values if value > _LEAST and math.isfinite(value)]
        low, high = min(positive, default=1.0), max(positive, default=10.0)
        room = max((high / low) ** 0.06, 1.03)
        return cls(low / room, high * room, log=True)

    def at(self, value: float) -> float:
        """The place of `value`: 0 at `low`, 1 at `high`; held at the ends for what lies beyond."""
        if self.log:
            if value <= self.low:
                return 0.0
            share = (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(max(share, 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Round values inside the scale, three to eight or so."""
        if self.log:
            exponents = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for digits in ((1.0,), (1.0, 2.0, 5.0)):
                found = [d * 10.0**e for e in exponents for d in digits if self.low <= d * 10.0**e <= self.high]
                if len(found) >= _LEAST_TICKS:
                    return found[:: math.ceil(len(found) / _MOST_TICKS)]
        # A logarithmic scale so short that it has hardly a power of ten in it looks like a linear one.
        step = self.step or _step(self.high - self.low)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [index * step for index in range(first, last + 1)]


def _apart(low: float, high: float) -> tuple[float, float]:
    """The two ends, the upper moved by 1 or more where they can't be told apart in a picture."""
    least = max(_LEAST, 1e-9 * max(abs(low), abs(high)))
    return (low, high) if high - low > least else (low, low + max(1.0, least))


def _step(span: float) -> float:
    """The round distance that makes some five marks of `span`."""
    power = 10.0 ** math.floor(math.log10(max(span, 1e-300) / 5))
    return next((power * r for r in _ROUND if power * r >= span / 5), power * 10)
