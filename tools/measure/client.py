"""The load generator: sends a workload to an endpoint on its schedule and records what comes back, raw.

Nothing that a server does is an exception here: every request ends as ok, failed or timed out, within its time.
This module makes traffic, so it isn't re-exported by the package: who proposes and who decides never import it.
"""

from __future__ import annotations

import asyncio
import gc
import math
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from tools.measure.dialect import Dialect
from tools.measure.load import ClientHealth, LoadResult
from tools.measure.progress import Progress, ProgressCallback
from tools.measure.records import RequestRecord
from tools.measure.sender import Sender, Sending, open_sender
from tools.measure.share import Share
from tools.measure.workload import Request, Workload
from tools.targets.target import Endpoint

__all__ = [
    "drive",
    "loop_factory",
    "probe",
    "run_load",
    "run_share",
    "run_warm_up",
    "stopped_by_interrupt",
    "undisturbed",
    "warm_up",
]

Result = TypeVar("Result")
Told = Callable[[RequestRecord], object]

_REFUSED = (400, 422)
_LOOK_UP_S = 0.5


def drive(
    endpoint: Endpoint,
    workload: Workload,
    *,
    dialect: Dialect | None = None,
    on_progress: ProgressCallback | None = None,
    workers: int = 1,
    draining: bool = False,
) -> LoadResult:
    """`run_load` for code without an event loop. Ctrl-C cancels what is in flight and closes every connection; with
    `draining` the first one only stops sending, and what came of the requests that were sent is returned.

    With more than one of `workers` the conversations are dealt out to so many processes, each with an event loop of its
    own and all on one schedule: for loads that one core can't send or receive.
    """
    if workers > 1:
        from tools.measure.workers import drive_in_processes

        chosen = _run(_probed(endpoint, workload, dialect))
        return drive_in_processes(
            endpoint, workload, dialect=chosen, on_progress=on_progress, workers=workers, draining=draining
        )
    return _run(run_load(endpoint, workload, dialect=dialect, on_progress=on_progress, draining=draining))


def warm_up(endpoint: Endpoint, workload: Workload) -> Dialect:
    """`run_warm_up` for code without an event loop."""
    return _run(run_warm_up(endpoint, workload))


async def run_warm_up(endpoint: Endpoint, workload: Workload) -> Dialect:
    """Probe the endpoint, send the warm-up requests together, and return the dialect to measure with.

    Read the server's counters after this and before `run_load`, and they count the measured requests alone.
    """
    dialect = await probe(endpoint, workload.spec.timeout_s)
    with open_sender(endpoint, dialect, workload.spec.timeout_s) as sender:
        await _gather(sender.send(request, due_s=0.0) for request in workload.warmup)
    return dialect


async def probe(endpoint: Endpoint, timeout_s: float) -> Dialect:
    """The largest dialect that the server doesn't refuse with 400 or 422, found with one short request per try.

    Any other answer, a good one or an outage, ends the probe: what is wrong with a server shows in the records.
    """
    request = Request(0, ({"role": "user", "content": "say one word"},), 2, 0.0, 3)
    dialect = Dialect()
    while True:
        with open_sender(endpoint, dialect, timeout_s) as sender:
            record = await sender.send(request, due_s=0.0)
        if record.http_status not in _REFUSED:
            return dialect
        poorer = dialect.without_refused(record.error)
        if poorer is None:
            return dialect
        dialect = poorer


async def run_load(
    endpoint: Endpoint,
    workload: Workload,
    *,
    dialect: Dialect | None = None,
    on_progress: ProgressCallback | None = None,
    draining: bool = False,
) -> LoadResult:
    """Send every request of `workload` when it is due and wait until each has ended.

    Without a `dialect` the endpoint is probed first, outside the window. A request has `timeout_s` from the moment it
    was due, however late it was sent. A conversation's next turn is due its gap after the answer before, and is sent
    after a failed answer too. In a closed loop a conversation is due when its user is free.
    """
    dialect = await _probed(endpoint, workload, dialect)
    share = Share.whole(workload)
    progress = Progress(workload, on_progress)
    stop = asyncio.Event()
    with undisturbed(), stopped_by_interrupt(stop) if draining else nullcontext():
        started_at, start_s = time.time(), time.perf_counter()
        records, health = await run_share(endpoint, share, dialect, start_s, progress.ended, stop)
    if not records:
        raise KeyboardInterrupt  # before anything was sent
    return LoadResult.of(started_at, records, health, dialect.extras, cut_short=stop.is_set())


async def run_share(
    endpoint: Endpoint, share: Share, dialect: Dialect, start_s: float, ended: Told, stop: asyncio.Event | None = None
) -> tuple[list[RequestRecord], ClientHealth]:
    """Drive one share of a load, its moments counted from `start_s` on the performance counter; `ended` is told each
    record as it ends. After `stop` nothing more is sent."""
    with open_sender(endpoint, dialect, share.timeout_s, start_s) as sender:
        play = _Play(sender, stop or asyncio.Event(), ended)
        cpu_s = time.thread_time()
        if share.concurrency is not None:
            await play.closed_loop(share.conversations, share.concurrency)
        else:
            await play.open_loop(share.conversations)
        cpu_s = time.thread_time() - cpu_s
        wall_s = sender.now()
    return play.records, ClientHealth.of(play.records, cpu_s=cpu_s, wall_s=wall_s)


async def _probed(endpoint: Endpoint, workload: Workload, dialect: Dialect | None) -> Dialect:
    return dialect if dialect is not None else await probe(endpoint, workload.spec.timeout_s)


@dataclass(frozen=True, slots=True)
class _Start:
    """A conversation about to begin."""

    conversation: Sequence[Request]
    due_s: float
    body: bytes

    def begin(self, sender: Sender) -> Sending:
        return sender.begin(self.conversation[0], due_s=self.due_s, body=self.body)


class _Play:
    """Conversations being played to a server."""

    def __init__(self, sender: Sender, stop: asyncio.Event, ended: Told) -> None:
        self._sender = sender
        self._stop = stop
        self._ended = ended
        self.records: list[RequestRecord] = []

    async def open_loop(self, conversations: Sequence[Sequence[Request]]) -> None:
        """Start every conversation when it is due: by the clock, and between two reads where many have arrived."""
        starts = iter(conversations)
        upcoming = self._prepared(starts)
        alarm = self._sender.alarm
        async with asyncio.TaskGroup() as group:

            def start_due() -> None:
                nonlocal upcoming
                now_s = self._sender.now()
                while upcoming is not None and upcoming.due_s <= now_s and not self._stop.is_set():
                    group.create_task(self._converse(upcoming.begin(self._sender), upcoming.conversation))
                    upcoming = self._prepared(starts)
                alarm.due_s = math.inf if upcoming is None else self._sender.start_s + upcoming.due_s

            alarm.ring = start_due
            start_due()
            while upcoming is not None and await self._due(upcoming.due_s):
                start_due()
            alarm.due_s = math.inf

    def _prepared(self, starts: Iterator[Sequence[Request]]) -> _Start | None:
        """The next conversation, its first body ready: encoding it costs its send no time."""
        conversation = next(starts, None)
        if conversation is None:
            return None
        return _Start(conversation, conversation[0].scheduled_s or 0.0, self._sender.body(conversation[0]))

    async def closed_loop(self, conversations: Sequence[Sequence[Request]], concurrency: int) -> None:
        queue = iter(conversations)

        async def user() -> None:
            for conversation in queue:
                body = self._sender.body(conversation[0])
                if self._stop.is_set():
                    return
                start = _Start(conversation, self._sender.now(), body)
                await self._converse(start.begin(self._sender), conversation)

        await _gather(user() for _ in range(min(concurrency, len(conversations))))

    async def _converse(self, sending: Sending, conversation: Sequence[Request]) -> None:
        """Finish a conversation's first turn, then send each further one when it is due."""
        end_s = await self._finish(sending)
        for request in conversation[1:]:
            body = self._sender.body(request)
            due_s = end_s + request.gap_s
            if not await self._due(due_s):
                return
            end_s = await self._finish(self._sender.begin(request, due_s=due_s, body=body))

    async def _finish(self, sending: Sending) -> float:
        """Keep what became of it; return when it ended."""
        record = await self._sender.finish(sending)
        self.records.append(record)
        self._ended(record)
        return record.end_s

    async def _due(self, due_s: float) -> bool:
        """Wait until `due_s`; False where nothing more is to be sent. The moment is absolute, so that one late wake-up
        doesn't push back every request after it."""
        while (wait_s := due_s - self._sender.now()) > 0 and not self._stop.is_set():
            # May wake up to a millisecond early. A long wait looks up now and then, whether it is still wanted.
            await asyncio.sleep(min(wait_s, _LOOK_UP_S))
        return not self._stop.is_set()


async def _gather(jobs: Iterable[Coroutine[Any, Any, Any]]) -> None:
    async with asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(job)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Without garbage collection, whose pauses would be measured as the server's."""
    was_on = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()


@contextmanager
def stopped_by_interrupt(stop: asyncio.Event) -> Iterator[None]:
    """The first Ctrl-C sets `stop`, the next one interrupts as ever."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def interrupted() -> None:
        if stop.is_set():
            task.cancel()
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield  # signals come to the main thread alone
        return
    before = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        yield
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
        raise KeyboardInterrupt from None
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)


def _run(job: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(job)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's loop, where there is one."""
    try:
        from uvloop import new_event_loop
    except ImportError:  # not on every platform
        return asyncio.new_event_loop
    return new_event_loop
