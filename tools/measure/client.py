"""The load generator: sends a workload to an endpoint on its schedule and records what comes back, raw.

Nothing that a server does is an exception here: every request ends as ok, failed or timed out, within its time.
This module makes traffic, so it isn't re-exported by the package: who proposes and who decides never import it.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tools.measure.dialect import Dialect
from tools.measure.load import ClientHealth, LoadResult
from tools.measure.progress import Progress, ProgressCallback
from tools.measure.records import RequestRecord
from tools.measure.sender import Sender, open_sender
from tools.measure.share import Share
from tools.measure.workload import Request, Workload
from tools.targets.target import Endpoint

__all__ = ["drive", "loop_factory", "probe", "run_load", "run_share", "run_warm_up", "undisturbed", "warm_up"]

Result = TypeVar("Result")
Told = Callable[[RequestRecord], None]

_REFUSED = (400, 422)


def drive(
    endpoint: Endpoint,
    workload: Workload,
    *,
    dialect: Dialect | None = None,
    on_progress: ProgressCallback | None = None,
    workers: int = 1,
) -> LoadResult:
    """`run_load` for code without an event loop. Ctrl-C cancels what is in flight and closes every connection.

    With more than one of `workers` the conversations are dealt out to so many processes, each with an event loop of its
    own and all on one schedule: for loads that one core can't send or receive.
    """
    if workers > 1:
        from tools.measure.workers import drive_in_processes

        chosen = _run(_probed(endpoint, workload, dialect))
        return drive_in_processes(endpoint, workload, dialect=chosen, on_progress=on_progress, workers=workers)
    return _run(run_load(endpoint, workload, dialect=dialect, on_progress=on_progress))


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
) -> LoadResult:
    """Send every request of `workload` when it is due and wait until each has ended.

    Without a `dialect` the endpoint is probed first, outside the window. A request has `timeout_s` from the moment it
    was due, however late it was sent. A conversation's next turn is due its gap after the answer before, and is sent
    after a failed answer too. In a closed loop a conversation is due when its user is free.
    """
    dialect = await _probed(endpoint, workload, dialect)
    share = Share.whole(workload)
    progress = Progress(workload, on_progress)
    with undisturbed():
        started_at, start_s = time.time(), time.perf_counter()
        records, health = await run_share(endpoint, share, dialect, start_s, progress.ended)
    return LoadResult.of(started_at, records, health, dialect.extras)


async def run_share(
    endpoint: Endpoint, share: Share, dialect: Dialect, start_s: float, ended: Told
) -> tuple[list[RequestRecord], ClientHealth]:
    """Drive one share of a load, its moments counted from `start_s` on the performance counter; `ended` is told each
    record as it ends."""
    with open_sender(endpoint, dialect, share.timeout_s, start_s) as sender:
        cpu_s = time.thread_time()
        if share.concurrency is not None:
            records = await _closed_loop(sender, share.conversations, share.concurrency, ended)
        else:
            records = await _open_loop(sender, share.conversations, ended)
        cpu_s = time.thread_time() - cpu_s
        wall_s = sender.now()
    return records, ClientHealth.of(records, cpu_s=cpu_s, wall_s=wall_s)


async def _probed(endpoint: Endpoint, workload: Workload, dialect: Dialect | None) -> Dialect:
    return dialect if dialect is not None else await probe(endpoint, workload.spec.timeout_s)


async def _open_loop(sender: Sender, conversations: Sequence[Sequence[Request]], ended: Told) -> list[RequestRecord]:
    records: list[RequestRecord] = []
    async with asyncio.TaskGroup() as group:
        for place, conversation in enumerate(conversations):
            due_s = conversation[0].scheduled_s or 0.0
            body = sender.body(conversation[0])
            # Absolute, so that one late wake-up doesn't push back every request after it.
            while (wait_s := due_s - sender.now()) > 0:
                await asyncio.sleep(wait_s)  # may wake up to a millisecond early
            group.create_task(_converse(sender, conversation, due_s, body, records, ended))
            if place % 16 == 0:
                await asyncio.sleep(0)  # a burst may be long: the first ones want to be sent, and read
    return records


async def _closed_loop(
    sender: Sender, conversations: Sequence[Sequence[Request]], concurrency: int, ended: Told
) -> list[RequestRecord]:
    queue = iter(conversations)
    records: list[RequestRecord] = []

    async def user() -> None:
        for conversation in queue:
            body = sender.body(conversation[0])
            await _converse(sender, conversation, sender.now(), body, records, ended)

    await _gather(user() for _ in range(min(concurrency, len(conversations))))
    return records


async def _converse(
    sender: Sender,
    conversation: Sequence[Request],
    due_s: float,
    body: bytes,
    records: list[RequestRecord],
    ended: Told,
) -> None:
    """Send a conversation's turns, each when it is due."""
    end_s = due_s
    for request in conversation:
        if request.turn:
            body = sender.body(request)
            due_s = end_s + request.gap_s
            while (wait_s := due_s - sender.now()) > 0:
                await asyncio.sleep(wait_s)
        record = await sender.send(request, due_s=due_s, body=body)
        end_s = record.end_s
        records.append(record)
        ended(record)


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
