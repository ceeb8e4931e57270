"""One bench: find what is wanted, measure the client, run the trials."""

from __future__ import annotations

import tempfile
from pathlib import Path

from autotune.bench.how_many import HowMany
from autotune.bench.result import Bench
from autotune.bench.series import Series
from autotune.bench.wanted import Wanted
from autotune.console import RunProgress
from tools.errors import UserError
from tools.measure.self_calibration import measure_floor

__all__ = ["run_bench"]


def run_bench(
    wanted: Wanted, seed: int | None, how_many: HowMany, price: float | None, with_floor: bool, progress: RunProgress
) -> Bench:
    """Measure what is wanted, the client itself first (`with_floor`).

    Args:
        price: of the hardware, per hour.

    Raises:
        UserError: it can't be measured, or options contradict each other.
    """
    with tempfile.TemporaryDirectory() as folder:
        subject, load, metric = wanted.found(Path(folder) / "server.log")
        if load.fixed is not None and (how_many.trials > 1 or how_many.effect is not None):
            raise UserError(
                "expected one trial of a workload that holds the very requests, found several: each trial needs "
                "requests of its own; give the spec that the file was made from"
            )
        found_floor = None
        if with_floor:
            progress.phase("self-calibration", "the client against a mock server", 3.0)
            found_floor = measure_floor(wanted.workers)
            progress.note(f"client's floor: {found_floor}")
        series = Series(subject, load, metric, seed, found_floor, progress.phase, progress.note, progress.requests)
        plan = None
        if how_many.effect is None:
            series.run(how_many.trials)
        else:
            plan = series.resolve(how_many.effect, how_many.budget_s)
    return Bench(subject.name, metric, tuple(series.trials), found_floor, plan, price, series.ended_early)
