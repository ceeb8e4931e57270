"""Laboratory: where things are measured. The graph asks it and knows no other way to a server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from autotune.harness.survey import bounds_of, survey_of
from tools.deployment import Deployment, DeploymentFile
from tools.evals.suite import Suite
from tools.measure.calibrate import Calibration, impulse_response
from tools.measure.floor import Floor
from tools.measure.progress import ProgressCallback
from tools.measure.self_calibration import measure_floor
from tools.measure.workload import Workload
from tools.profile.hardware import hardware
from tools.profile.probe import measure_roofline
from tools.profile.roofline import Roofline
from tools.targets.knobs import Config
from tools.targets.target import Target
from tools.trial import TrialResult, launched, run_trial

__all__ = ["FLOOR_REQUESTS", "Laboratory", "LiveLaboratory"]

FLOOR_REQUESTS = 4
"Requests sent one at a time for the latency floor."


class Laboratory(Protocol):
    """Measures configs of one target. Live, or replayed from a recording."""

    @property
    def target(self) -> Target: ...

    def survey(self, file: DeploymentFile, baseline: Config) -> dict[str, Any]:
        """What the machine is, and what no config can get out of it.

        Raises:
            UserError: the config doesn't fit, or a promise lies below the roofline's floor (exit code 2).
        """
        ...

    def peak(self, file: DeploymentFile, baseline: Config, known: Roofline) -> dict[str, Any]:
        """The survey's `roofline`, `floors` and `physics` after another look at the machine; the better rate counts."""
        ...

    def environment(self) -> str:
        """Fingerprint of hardware and software, taken now."""
        ...

    def resources(self) -> Mapping[str, float]:
        """What a trial runs on: cores, gpus, replicas (server processes)."""
        ...

    def client_floor(self) -> Floor:
        """What the load generator itself costs, against a mock server."""
        ...

    def calibrate(
        self, deployment: Deployment, baseline: Config, *, seed: int, log: Path, on_progress: ProgressCallback
    ) -> Calibration:
        """Impulse response of the baseline: one at a time, then all at once.

        Raises:
            LaunchFailed: it doesn't run.
        """
        ...

    def trial(
        self,
        config: Config,
        workload: Workload,
        *,
        log: Path,
        ready_timeout_s: float,
        evals: Suite | None,
        on_progress: ProgressCallback,
    ) -> TrialResult:
        """One fresh launch under one load; a crash is a result."""
        ...


class LiveLaboratory:
    """A target on this machine."""

    def __init__(self, target: Target) -> None:
        self._target = target

    @property
    def target(self) -> Target:
        return self._target

    def survey(self, file: DeploymentFile, baseline: Config) -> dict[str, Any]:
        return survey_of(file, self._target, baseline)

    def peak(self, file: DeploymentFile, baseline: Config, known: Roofline) -> dict[str, Any]:
        facts = self._target.facts(baseline, free=file.managed)
        now = measure_roofline(device=file.deployment.device, step_bytes=facts.step_bytes if facts else 0)
        return bounds_of(file, self._target, baseline, known.best(now))

    def environment(self) -> str:
        return hardware().fingerprint

    def resources(self) -> Mapping[str, float]:
        machine = hardware()
        return {"cores": machine.cores, "gpus": len(machine.gpus), "replicas": 1}

    def client_floor(self) -> Floor:
        return measure_floor()

    def calibrate(
        self, deployment: Deployment, baseline: Config, *, seed: int, log: Path, on_progress: ProgressCallback
    ) -> Calibration:
        with launched(self._target, baseline, log=log, timeout_s=deployment.ready_timeout_s) as endpoint:
            found = impulse_response(
                endpoint, deployment.workload, seed=seed, floor_requests=FLOOR_REQUESTS, on_progress=on_progress
            )
            self._target.identify(endpoint)  # a server that was another one meanwhile says so
            return found

    def trial(
        self,
        config: Config,
        workload: Workload,
        *,
        log: Path,
        ready_timeout_s: float,
        evals: Suite | None,
        on_progress: ProgressCallback,
    ) -> TrialResult:
        return run_trial(
            self._target,
            config,
            workload,
            log=log,
            ready_timeout_s=ready_timeout_s,
            evals=evals,
            on_progress=on_progress,
        )
