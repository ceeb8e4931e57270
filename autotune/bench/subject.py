"""Subject: what is measured. A server that runs already, or a deployment that is launched afresh for each trial."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tools.deployment import DeploymentFile
from tools.errors import UserError
from tools.measure.client import drive, warm_up
from tools.measure.measurement import Measurement
from tools.measure.progress import ProgressCallback
from tools.measure.workload import Workload
from tools.targets.target import Endpoint

__all__ = ["DeploymentSubject", "Subject", "UrlSubject"]


class Subject(Protocol):
    """Something that can be measured again and again."""

    @property
    def name(self) -> str: ...

    def measure(self, workload: Workload, on_progress: ProgressCallback | None) -> Measurement:
        """One trial.

        Raises:
            UserError: it doesn't run, or answers nothing at all.
        """
        ...


@dataclass(frozen=True)
class UrlSubject:
    """A server that somebody else runs: every trial finds it as the one before has left it."""

    endpoint: Endpoint
    workers: int = 1

    @property
    def name(self) -> str:
        return self.endpoint.base_url

    def measure(self, workload: Workload, on_progress: ProgressCallback | None) -> Measurement:
        dialect = warm_up(self.endpoint, workload)
        load = drive(
            self.endpoint, workload, dialect=dialect, on_progress=on_progress, workers=self.workers, draining=True
        )
        measurement = Measurement.of(workload, load, config_digest="")
        if not measurement.completed:
            raise UserError(
                f"{self.name}: none of {measurement.offered} requests was answered; the first: {load.records[0].error}"
            )
        return measurement


@dataclass(frozen=True)
class DeploymentSubject:
    """A deployment as it stands: each trial is a launch of its own."""

    file: DeploymentFile
    log: Path
    "Where the server's words go."
    workers: int = 1

    @property
    def name(self) -> str:
        return self.file.deployment.name

    def measure(self, workload: Workload, on_progress: ProgressCallback | None) -> Measurement:
        from autotune.harness.prepare import target_for
        from tools.trial import run_trial

        deployment, path = self.file.deployment, self.file.path
        target = target_for(deployment, path)
        result = run_trial(
            target,
            target.knobs.resolve(deployment.config),
            workload,
            log=self.log,
            ready_timeout_s=deployment.ready_timeout_s,
            on_progress=on_progress,
            workers=self.workers,
            draining=True,
        )
        if result.measurement is None:
            assert result.failure is not None
            raise UserError(
                f"{path}: the server doesn't run ({result.failure.kind}): {result.failure.message}\n"
                f"{result.failure.log_tail[-1000:]}"
            )
        return result.measurement
