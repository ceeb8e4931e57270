"""Workers: one load sent by several processes on one schedule, for rates that one core can't send or receive.

The moment that all schedules count from is set once every worker is ready; the performance counter is one clock for
all processes of a machine. A worker whose parent is gone ends by itself.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from typing import IO, Any, BinaryIO, cast

from tools.errors import UserError
from tools.measure.dialect import Dialect
from tools.measure.load import ClientHealth, LoadResult
from tools.measure.progress import Progress, ProgressCallback
from tools.measure.records import RequestRecord
from tools.measure.share import Share
from tools.measure.worker import STOP, Home, Task, receive, send
from tools.measure.workload import Workload
from tools.targets.target import Endpoint

__all__ = ["drive_in_processes"]

Process = subprocess.Popen[bytes]

_HEAD_START_S = 0.05
"""From the moment the last worker is told until the schedule starts."""


def drive_in_processes(
    endpoint: Endpoint,
    workload: Workload,
    *,
    dialect: Dialect,
    on_progress: ProgressCallback | None = None,
    workers: int,
    draining: bool = False,
) -> LoadResult:
    """As `client.drive`, with the conversations dealt out to at most `workers` processes, all reaped at the end.

    Raises:
        UserError: a worker died.
    """
    shares = Share.whole(workload).dealt(workers)
    progress = Progress(workload, on_progress)
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(_worker()) for _ in shares]
        for process, share in zip(started, shares, strict=True):
            _order(process, Task(endpoint, share, dialect))
        told: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        for place, process in enumerate(started):
            threading.Thread(target=_listen, args=(place, process, told), daemon=True).start()
        for _ in started:
            _expect(told.get(), started, bool)
        started_at, start_s = time.time() + _HEAD_START_S, time.perf_counter() + _HEAD_START_S
        for process in started:
            _order(process, start_s)
        homes: list[Home] = []
        stopped = False
        while len(homes) < len(started):
            try:
                news = _expect(told.get(), started, RequestRecord, Home)
            except KeyboardInterrupt:
                if stopped or not draining:
                    raise
                stopped = True
                for process in started:
                    _order(process, STOP)
                continue
            if isinstance(news, Home):
                homes.append(news)
            else:
                progress.ended(news)
    records = [record for home in homes for record in home.records]
    if not records:
        raise KeyboardInterrupt  # before anything was sent
    health = ClientHealth.together(records, [home.health for home in homes])
    return LoadResult.of(started_at, records, health, dialect.extras, cut_short=stopped)


@contextlib.contextmanager
def _worker() -> Iterator[Process]:
    command = [sys.executable, "-m", "tools.measure.worker"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # unwritten orders to one that has died
                cast(IO[bytes], pipe).close()


def _order(process: Process, what: object) -> None:
    """Tell a worker something; one that has died is found out by what it doesn't answer."""
    with contextlib.suppress(OSError):
        send(cast(BinaryIO, process.stdin), what)


def _listen(place: int, process: Process, told: SimpleQueue[tuple[int, Any]]) -> None:
    try:
        while True:
            told.put((place, receive(cast(BinaryIO, process.stdout))))
    except (EOFError, OSError, ValueError) as error:  # it died, or was ended by us
        told.put((place, error))


def _expect(news: tuple[int, Any], started: Sequence[Process], *kinds: type) -> Any:
    place, what = news
    if not isinstance(what, kinds):
        code = started[place].poll()
        raise UserError(
            f"load worker {place} of {len(started)}: expected its records, found {type(what).__name__} "
            f"(exit code {code}); its own words stand above"
        )
    return what
