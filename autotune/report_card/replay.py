"""Replay: a laboratory that measures nothing. It plays recorded launches back, so that a run takes seconds."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, cast, get_args

from autotune.harness.laboratory import FLOOR_REQUESTS
from autotune.harness.survey import bounds_of, survey_of
from autotune.report_card.evals import said
from autotune.report_card.noise import noise_of
from autotune.report_card.playback import Process, play
from autotune.report_card.scenario import Lure, Trap
from autotune.report_card.surface import Model, Surface
from tools.canonical import digest
from tools.deployment import Deployment, DeploymentFile
from tools.evals.suite import Suite
from tools.measure.calibrate import BURST_REQUESTS, Calibration
from tools.measure.floor import Floor
from tools.measure.progress import ProgressCallback
from tools.measure.workload import Workload
from tools.profile.roofline import Roofline
from tools.targets.bundled import BundledTarget
from tools.targets.knobs import Config, KnobError, KnobSpace
from tools.targets.target import Endpoint, FailureKind, Identity, LaunchFailed, Target
from tools.trial import Failure, TrialResult

__all__ = ["ReplayLaboratory", "ReplayTarget", "VirtualClock"]

_HANDLING_S = 1.0
"What a live trial takes besides waiting and loading: warm-up, reading counters, stopping."
_FIRST_PID = 1000


class VirtualClock:
    """Unix seconds that also pass while nothing is done: a played trial takes as long as a live one would."""

    def __init__(self) -> None:
        self._skipped_s = 0.0

    def __call__(self) -> float:
        return time.time() + self._skipped_s

    def skip(self, seconds: float) -> None:
        self._skipped_s += seconds

    @property
    def skipped_s(self) -> float:
        return self._skipped_s


class ReplayTarget(BundledTarget):
    """The bundled engine as a recording knows it: knobs, memory and floors are its own formulas, nothing is launched.

    `believed_lossless` are lossy knobs that this target's table wrongly calls lossless.
    """

    def __init__(self, model: Model, believed_lossless: frozenset[str] = frozenset()) -> None:
        self._place = TemporaryDirectory(prefix="autotune-replay-")
        folder = Path(self._place.name) / model.name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(model.config))
        if model.generation_config:
            (folder / "generation_config.json").write_text(json.dumps(model.generation_config))
        header = json.dumps(model.header).encode()
        (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)  # and no weights
        super().__init__(folder)
        self._model = model
        self._believed_lossless = believed_lossless

    @cached_property
    def knobs(self) -> KnobSpace:
        known = super().knobs.knobs
        wrong = {name: replace(known[name], outputs="lossless") for name in self._believed_lossless}
        return KnobSpace({**known, **wrong})

    def model_digest(self) -> str:
        return self._model.digest

    def launch(self, config: Config, *, log: Path, timeout_s: float = 120.0) -> Endpoint:
        raise LaunchFailed("unreachable", "a replay has no server to launch; ask the laboratory for a trial")

    def identify(self, endpoint: Endpoint) -> Identity:
        raise LaunchFailed("unreachable", "a replay has no server to identify")


@dataclass(frozen=True, slots=True)
class _Weather:
    """What makes a scenario's machine differ from the recorded one."""

    noise: float
    lures: tuple[Lure, ...]
    traps: tuple[Trap, ...]


class ReplayLaboratory:
    """Measures by playing a surface back. Equal seeds and equal trials give equal measurements."""

    def __init__(
        self,
        surface: Surface,
        *,
        seed: int,
        noise: float = 1.0,
        lures: tuple[Lure, ...] = (),
        traps: tuple[Trap, ...] = (),
        clock: VirtualClock | None = None,
    ) -> None:
        """
        Args:
            noise: how far launches differ, as a multiple of what was recorded; 0 plays every launch without luck.
            lures: knobs that seem to make it faster.
            traps: configs that fail.
        """
        self.surface = surface
        self.clock = clock or VirtualClock()
        self._seed = seed
        self._weather = _Weather(noise, lures, traps)
        self._noise = noise_of(surface)
        self._launches = 0
        self._target = ReplayTarget(surface.model, frozenset(lure.knob for lure in lures))

    @property
    def target(self) -> Target:
        return self._target

    def survey(self, file: DeploymentFile, baseline: Config) -> dict[str, Any]:
        """As the live survey, of the recorded machine."""
        machine = self.surface.machine
        return survey_of(file, self._target, baseline, machine.hardware, machine.roofline)

    def peak(self, file: DeploymentFile, baseline: Config, known: Roofline) -> dict[str, Any]:
        """As the recorded machine has it: a recording can't find more than it found."""
        return bounds_of(file, self._target, baseline, known.best(self.surface.machine.roofline))

    def environment(self) -> str:
        return self.surface.machine.hardware.fingerprint

    def resources(self) -> Mapping[str, float]:
        return {"cores": self.surface.machine.hardware.cores, "gpus": 0, "replicas": 1}

    def client_floor(self) -> Floor:
        return self.surface.machine.client_floor

    def calibrate(
        self, deployment: Deployment, baseline: Config, *, seed: int, log: Path, on_progress: ProgressCallback
    ) -> Calibration:
        """Of the recorded load, since no other was recorded: the floor from the requests that waited least, the ceiling
        from how fast first tokens followed each other."""
        failure = self._failure(baseline)
        if failure is not None:
            log.write_text(failure.log_tail)
            raise LaunchFailed(failure.kind, failure.message, failure.log_tail)
        cell = self.surface.nearest(baseline)
        quickest = sorted(cell.requests, key=lambda request: request.first_s)[:FLOOR_REQUESTS]
        pace_s = fmean(gap for request in quickest for gap in request.gaps_s)
        tokens = fmean(len(request.gaps_s) + 1 for request in cell.requests)
        prompt = self.surface.template_tokens + deployment.workload.least_new_tokens
        rate_rps = len(cell.requests) / sum(cell.turns_s)
        first_s = fmean(request.first_s for request in quickest)
        return Calibration(
            spec_digest=deployment.workload.digest,
            seed=seed,
            floor_requests=FLOOR_REQUESTS,
            floor_ttft_ms=first_s * 1000,
            floor_tpot_ms=pace_s * 1000,
            floor_e2el_ms=(first_s + pace_s * (tokens - 1)) * 1000,
            ceiling_requests=min(len(cell.requests), BURST_REQUESTS),
            ceiling_request_throughput=rate_rps,
            ceiling_output_throughput=rate_rps * tokens,
            ceiling_total_token_throughput=rate_rps * (tokens + prompt),
        )

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
        """One played launch. The virtual clock goes on by what a live one would have taken."""
        self._launches += 1
        cell = self.surface.nearest(config)
        process = Process(_FIRST_PID + self._launches, self.clock(), cell.ready_s)
        failure = self._failure(config)
        if failure is not None:
            log.write_text(failure.log_tail)
            self.clock.skip(cell.ready_s + _HANDLING_S)
            return TrialResult(config, workload.seed, failure=failure, ready_s=0.0)
        random = Random(digest([self._seed, log.stem, config.digest, workload.digest]))
        luck = self._noise.deal(random, len(workload.requests), scale=self._weather.noise)
        speed = 1.0
        for lure in self._weather.lures:
            speed *= lure.speed(config)
        measurement = play(self.surface, cell, workload, config, self._target.knobs, process, luck, speed)
        self.clock.skip(cell.ready_s + measurement.window_s + _HANDLING_S)
        altered = any(lure.taken(config) for lure in self._weather.lures)
        return TrialResult(
            config,
            workload.seed,
            measurement=measurement,
            evals=said(evals, random, altered=altered) if evals else None,
            ready_s=cell.ready_s,
            resources=self._resident(config),
        )

    def _resident(self, config: Config) -> dict[str, float]:
        """What the memory formula says, from before the load to its end: a played server doesn't grow."""
        held = float(self._target.memory(config).total_bytes)
        return {"rss_before_bytes": held, "rss_middle_bytes": held, "rss_after_bytes": held}

    def _failure(self, config: Config) -> Failure | None:
        """Why a launch with `config` fails: it doesn't go together, was recorded to fail, or is in a trap."""
        try:
            self._target.memory(config)
        except KnobError as refusal:
            return _failed("bad_config", str(refusal))
        for trap in self._weather.traps:
            if trap.holds(config):
                return Failure(trap.kind, trap.message, trap.log_tail)
        cell = self.surface.nearest(config)
        return _failed(*cell.failure) if cell.failure is not None else None


def _failed(kind: str, message: str) -> Failure:
    known = cast(FailureKind, kind) if kind in get_args(FailureKind) else "crash"
    return Failure(known, message, f"engine: error: {known}: {message}")
