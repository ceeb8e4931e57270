"""ServiceCalibration: all that a calibration found, as data: the curve, what it rests on, and how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.measure.doubts import Doubt
from tools.service.best_rate import BestRate
from tools.service.curve import ServiceCurve
from tools.service.fit import Fit
from tools.service.point import Point
from tools.service.predict import Prediction

__all__ = ["ServiceCalibration"]


@dataclass(frozen=True, slots=True)
class ServiceCalibration:
    """One server, one mix of requests. Rates are conversation starts a second."""

    target: str
    model: str
    workload: Mapping[str, Any]
    "The WorkloadSpec, as its YAML has it."
    seed: int
    started_at: float
    "Unix seconds."
    seconds: float
    "What it took."
    requests_sent: int
    fit: Fit
    points: tuple[Point, ...]
    "By rate."
    predictions: tuple[Prediction, ...]
    "By rate."
    knee_rps: float
    capacity_rps: float
    slo: Mapping[str, float]
    "Bounds under their flat names."
    best_rate: BestRate | None
    "None without an SLO."
    doubts: tuple[Doubt, ...]

    @property
    def curve(self) -> ServiceCurve:
        return self.fit.replica.curve

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` gives back an equal calibration."""
        return {
            "kind": "service-calibration",
            "version": 1,
            "target": self.target,
            "model": self.model,
            "workload": dict(self.workload),
            "seed": self.seed,
            "started_at": self.started_at,
            "seconds": self.seconds,
            "requests_sent": self.requests_sent,
            "curve": self.curve.to_json(),
            "fit": self.fit.to_json(),
            "points": [point.to_json() for point in self.points],
            "predictions": [prediction.to_json() for prediction in self.predictions],
            "knee_rps": self.knee_rps,
            "capacity_rps": self.capacity_rps,
            "slo": dict(self.slo),
            "best_rate": self.best_rate.to_json() if self.best_rate else None,
            "doubts": [doubt.to_json() for doubt in self.doubts],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ServiceCalibration:
        """The calibration that `to_json` wrote.

        Raises:
            KeyError, TypeError: not such data.
        """
        plain = ("target", "model", "workload", "seed", "started_at", "seconds", "requests_sent")
        return cls(
            **{name: data[name] for name in plain},
            fit=Fit.from_json(data["fit"]),
            points=tuple(Point.from_json(point) for point in data["points"]),
            predictions=tuple(Prediction.from_json(prediction) for prediction in data["predictions"]),
            knee_rps=data["knee_rps"],
            capacity_rps=data["capacity_rps"],
            slo=data["slo"],
            best_rate=BestRate.from_json(data["best_rate"]) if data["best_rate"] else None,
            doubts=tuple(Doubt(**doubt) for doubt in data["doubts"]),
        )
