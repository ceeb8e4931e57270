"""ServiceCurve: how fast one replica serves one mix of requests, as a few numbers a simulation can be fed with.

The model of a continuously batching engine: a request waits for a seat, its prompt is read (prefill), then every
decoding sequence gets one token a step, and a step takes longer the more sequences share it and while a prompt is
being read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ServiceCurve"]


@dataclass(frozen=True, slots=True)
class ServiceCurve:
    """One replica, one mix. Times are seconds, lengths tokens."""

    name: str
    "Of the deployment or hardware it was measured on."
    spec_digest: str
    "Of the mix (WorkloadSpec without its arrivals' rate) that it was measured with; empty for any."
    seats: int
    "Most sequences served at once; more wait."
    overhead_s: float
    "What each request costs before its prompt is read: network, parsing, one turn of the scheduler."
    prefill_s_per_token: float
    "Time to read one prompt token that no cache holds, with nothing else going on."
    steps: tuple[tuple[float, float], ...]
    "(sequences decoding together, seconds a step), ascending: at least one pair."
    prompt_tokens: float
    "Mean uncached prompt tokens of a request."
    output_tokens: float
    "Mean output tokens of a request."

    def step_s(self, sequences: float) -> float:
        """Seconds of a decode step of so many sequences: linear between the measured points, level below the first
        and with the last slope above the last."""
        counts = [count for count, _ in self.steps]
        if sequences <= counts[0] or len(self.steps) == 1:
            return self.steps[0][1]
        at = min(bisect_right(counts, sequences), len(self.steps) - 1)
        (x0, y0), (x1, y1) = self.steps[at - 1], self.steps[at]
        return max(y0 + (y1 - y0) * (sequences - x0) / (x1 - x0), 0.0)

    def prefill_s(self, tokens: float) -> float:
        """Seconds to read `tokens` uncached prompt tokens alone."""
        return self.overhead_s + self.prefill_s_per_token * tokens

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__} | {"steps": [list(pair) for pair in self.steps]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ServiceCurve:
        """The curve that `to_json` wrote.

        Raises:
            KeyError, TypeError: not such data.
        """
        return cls(**{**data, "steps": tuple((float(count), float(step)) for count, step in data["steps"])})
