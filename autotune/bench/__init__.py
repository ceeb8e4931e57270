"""Bench: a server measured as it stands, in one trial or as many as it takes. Nothing is tuned, nothing is judged."""

from autotune.bench.result import Bench, BenchTrial
from autotune.bench.series import Series
from autotune.bench.subject import DeploymentSubject, Subject, UrlSubject

__all__ = ["Bench", "BenchTrial", "DeploymentSubject", "Series", "Subject", "UrlSubject"]
