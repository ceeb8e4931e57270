"""Bench: a server measured as it stands, in one trial or as many as it takes. Nothing is tuned, nothing is judged."""

from autotune.bench.files import Files
from autotune.bench.how_many import HowMany
from autotune.bench.result import Bench, BenchTrial
from autotune.bench.run import run_bench
from autotune.bench.series import Series
from autotune.bench.show import show
from autotune.bench.subject import ServedSubject, Subject
from autotune.bench.wanted import Wanted, asked_arrivals

__all__ = [
    "Bench",
    "BenchTrial",
    "Files",
    "HowMany",
    "Series",
    "ServedSubject",
    "Subject",
    "Wanted",
    "asked_arrivals",
    "run_bench",
    "show",
]
