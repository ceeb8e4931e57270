"""Trial: one config, one launch, one workload, one seed. A crash is a result, not an exception."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.evals.results import EvalResults
from tools.evals.suite import Suite
from tools.measure.client import drive, warm_up
from tools.measure.measurement import Measurement
from tools.measure.progress import ProgressCallback
from tools.measure.workload import Workload
from tools.targets.knobs import Config
from tools.targets.target import Endpoint, FailureKind, LaunchFailed, Target

__all__ = ["Failure", "TrialResult", "launched", "run_trial"]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a trial has no measurement, classified, with the end of the server's log."""

    kind: FailureKind
    message: str
    log_tail: str


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What a trial yields: a measurement or a failure, never both."""

    config: Config
    seed: int
    measurement: Measurement | None = None
    failure: Failure | None = None
    evals: EvalResults | None = None
    ready_s: float = 0.0
    "Seconds from launch to ready."


@contextmanager
def launched(target: Target, config: Config, *, log: Path, timeout_s: float) -> Iterator[Endpoint]:
    """A server with `config`, stopped and reaped whatever happens inside.

    Raises:
        LaunchFailed: it didn't become ready within `timeout_s` seconds.
    """
    endpoint = target.launch(config, log=log, timeout_s=timeout_s)
    try:
        yield endpoint
    finally:
        target.stop(endpoint)


def run_trial(
    target: Target,
    config: Config,
    workload: Workload,
    *,
    log: Path,
    ready_timeout_s: float,
    evals: Suite | None = None,
    on_progress: ProgressCallback | None = None,
    workers: int = 1,
    draining: bool = False,
) -> TrialResult:
    """Launch, warm up, load, read counters before and after, stop.

    Args:
        evals: asked after the load, for the quality verifiers.
        on_progress: told requests done, requests in all and seconds left.
        workers: processes that send the load.
        draining: the first Ctrl-C stops sending, and what was sent is measured.
    """
    ready_s = 0.0
    try:
        with launched(target, config, log=log, timeout_s=ready_timeout_s) as endpoint:
            ready_s = endpoint.ready_s
            try:
                measurement = _measure(target, endpoint, config, workload, on_progress, workers, draining)
                said = evals.run(endpoint, order_seed=workload.seed) if evals else None
            except LaunchFailed as unreachable:
                raise target.postmortem(endpoint) or unreachable from None
    except LaunchFailed as failed:
        return TrialResult(
            config, workload.seed, failure=Failure(failed.kind, failed.message, failed.log_tail), ready_s=ready_s
        )
    return TrialResult(config, workload.seed, measurement=measurement, evals=said, ready_s=ready_s)


def _measure(
    target: Target,
    endpoint: Endpoint,
    config: Config,
    workload: Workload,
    on_progress: ProgressCallback | None,
    workers: int,
    draining: bool,
) -> Measurement:
    dialect = warm_up(endpoint, workload)
    target.reset_cache(endpoint)
    identity_before, counters_before = target.identify(endpoint), target.counters(endpoint)
    load = drive(endpoint, workload, dialect=dialect, on_progress=on_progress, workers=workers, draining=draining)
    counters_after, identity_after = target.counters(endpoint), target.identify(endpoint)
    return Measurement.of(
        workload,
        load,
        config_digest=config.digest,
        identity_before=identity_before,
        identity_after=identity_after,
        counters_before=counters_before,
        counters_after=counters_after,
    )
