"""Point: a rate that was really driven, beside what was predicted for that very load before it was sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Point"]


@dataclass(frozen=True, slots=True)
class Point:
    """One measured load at a rate."""

    rate_rps: float
    "Conversation starts a second."
    requests: int
    "Sent."
    seed: int
    summary: Mapping[str, float]
    "Flat metrics, as measured."
    predicted: Mapping[str, float]
    "The same metrics of the same requests, played on the fitted replica."
    held_out: bool
    "Whether the fit hadn't seen this load when it predicted it."

    def error(self, metric: str) -> float | None:
        """Predicted over measured, less 1; None where either is absent."""
        seen, foretold = self.summary.get(metric), self.predicted.get(metric)
        return foretold / seen - 1 if seen and foretold is not None else None

    def to_json(self) -> dict[str, Any]:
        return {
            "rate_rps": self.rate_rps,
            "requests": self.requests,
            "seed": self.seed,
            "summary": dict(self.summary),
            "predicted": dict(self.predicted),
            "held_out": self.held_out,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Point:
        """The point that `to_json` wrote.

        Raises:
            TypeError: not such data.
        """
        return cls(**data)
