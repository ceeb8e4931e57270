"""Trial: one config, one launch, one workload, one seed. A crash is a result, not an exception."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tools.canonical import digest
from tools.evals.results import EvalResults
from tools.evals.suite import Suite
from tools.measure.client import drive, warm_up
from tools.measure.measurement import Measurement
from tools.measure.progress import ProgressCallback
from tools.measure.workload import Workload
from tools.resident import group_members, resident_bytes
from tools.targets.external.change import require_undisturbed
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
    resources: Mapping[str, float] = field(default_factory=dict)
    """Resident memory of the server's processes: rss_before_bytes (warm, before the load), rss_middle_bytes (when half
    of the requests have ended), rss_after_bytes. Absent where the OS doesn't say, or the server isn't ours."""


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
    memory = _Memory(on_progress)
    try:
        with launched(target, config, log=log, timeout_s=ready_timeout_s) as endpoint:
            ready_s = endpoint.ready_s
            try:
                measurement = _measure(target, endpoint, config, workload, memory, workers, draining)
                said = evals.run(endpoint, order_seed=_order_seed(log)) if evals else None
            except LaunchFailed as unreachable:
                raise target.postmortem(endpoint) or unreachable from None
    except LaunchFailed as failed:
        return TrialResult(
            config, workload.seed, failure=Failure(failed.kind, failed.message, failed.log_tail), ready_s=ready_s
        )
    return TrialResult(
        config, workload.seed, measurement=measurement, evals=said, ready_s=ready_s, resources=memory.seen
    )


def _order_seed(log: Path) -> int:
    """Another for each launch of a run, since each has a log of its own: the baseline's launches among themselves then
    show what another order does."""
    return int(digest(log.stem)[:8], 16)


class _Memory:
    """Resident memory of one server before, in the middle of and after a load; passes the load's progress on."""

    def __init__(self, on_progress: ProgressCallback | None) -> None:
        self.seen: dict[str, float] = {}
        self._on_progress = on_progress
        self._pids: tuple[int, ...] = ()

    def look(self, when: str, group: int | None = None) -> None:
        """Note what is resident now; `group` names the process group to find the processes of, else as found last."""
        if group is not None:
            self._pids = group_members(group)
        if (held := resident_bytes(self._pids)) is not None:
            self.seen[f"rss_{when}_bytes"] = float(held)

    def progress(self, done: int, total: int, seconds_left: float | None) -> None:
        if 2 * done >= total and "rss_middle_bytes" not in self.seen:
            self.look("middle")
        if self._on_progress is not None:
            self._on_progress(done, total, seconds_left)


def _measure(
    target: Target,
    endpoint: Endpoint,
    config: Config,
    workload: Workload,
    memory: _Memory,
    workers: int,
    draining: bool,
) -> Measurement:
    dialect = warm_up(endpoint, workload)
    target.reset_cache(endpoint)
    identity_before, counters_before = target.identify(endpoint), target.counters(endpoint)
    memory.look("before", endpoint.pid)
    load = drive(endpoint, workload, dialect=dialect, on_progress=memory.progress, workers=workers, draining=draining)
    memory.look("after", endpoint.pid)
    counters_after, identity_after = target.counters(endpoint), target.identify(endpoint)
    measurement = Measurement.of(
        workload,
        load,
        config_digest=config.digest,
        identity_before=identity_before,
        identity_after=identity_after,
        counters_before=counters_before,
        counters_after=counters_after,
    )
    if endpoint.external:
        require_undisturbed(endpoint.base_url, load.records, measurement.counted)
    return measurement
