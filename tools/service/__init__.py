"""Service: how fast a server serves a mix of requests at any rate, learnt from a few loads.

A `Replica` (a service curve and what a step-by-step simulation needs beside it) is fitted to raw records, played at
rates that nobody drove, and asked for the best rate under a promise. Pure functions of records, but for
`tools.service.campaign`, which makes the traffic and is imported by its own name.
"""

from tools.service.best_rate import BestRate, best_rate
from tools.service.calibration import ServiceCalibration
from tools.service.curve import ServiceCurve
from tools.service.fit import Fit, fit_replica
from tools.service.jobs import Job
from tools.service.phase import Phase
from tools.service.point import Point
from tools.service.predict import Prediction, Predictor
from tools.service.replica import Replica
from tools.service.simulate import Played, simulate

__all__ = [
    "BestRate",
    "Fit",
    "Job",
    "Phase",
    "Played",
    "Point",
    "Prediction",
    "Predictor",
    "Replica",
    "ServiceCalibration",
    "ServiceCurve",
    "best_rate",
    "fit_replica",
    "simulate",
]
