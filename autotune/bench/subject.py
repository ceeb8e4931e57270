"""Subject: what is measured, again and again. A deployment is launched afresh for each trial; a server that somebody
else runs is found by every trial as the one before has left it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autotune.endpoint import Served
from tools.errors import UserError
from tools.measure.measurement import Measurement
from tools.measure.progress import ProgressCallback
from tools.measure.workload import Workload
from tools.targets.target import LaunchFailed
from tools.trial import run_trial

__all__ = ["ServedSubject", "Subject"]


class Subject(Protocol):
    """Something that can be measured again and again."""

    @property
    def name(self) -> str: ...

    def measure(self, workload: Workload, on_progress: ProgressCallback | None) -> Measurement:
        """One trial.

        Raises:
            UserError: it doesn't run, changed meanwhile, or answers nothing at all.
        """
        ...


@dataclass(frozen=True)
class ServedSubject:
    """A deployment as it stands, or a server that somebody else runs."""

    served: Served
    log: Path
    "Where the server's words go."
    workers: int = 1

    @property
    def name(self) -> str:
        return self.served.name

    def measure(self, workload: Workload, on_progress: ProgressCallback | None) -> Measurement:
        result = run_trial(
            self.served.target,
            self.served.config,
            workload,
            log=self.log,
            ready_timeout_s=self.served.ready_timeout_s,
            on_progress=on_progress,
            workers=self.workers,
            draining=True,
        )
        measurement, failure = result.measurement, result.failure
        if failure is not None:
            said = f"\n{failure.log_tail[-1000:]}" if failure.log_tail else ""
            raise UserError(self.served.cannot(LaunchFailed(failure.kind, failure.message)) + said)
        assert measurement is not None
        if not measurement.completed:
            first = measurement.records[0].error
            raise UserError(f"{self.name}: none of {measurement.offered} requests was answered; the first: {first}")
        return measurement
