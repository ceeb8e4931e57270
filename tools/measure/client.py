"""The load generator: sends a workload to an endpoint on its schedule and records what comes back, raw.

Nothing that a server does is an exception here: every request ends as ok, failed or timed out, within its time.
This module makes traffic, so it isn't re-exported by the package: who proposes and who decides never import it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

import aiohttp

from tools.measure.dialect import Dialect
from tools.measure.load import ClientHealth, LoadResult
from tools.measure.progress import Progress, ProgressCallback
from tools.measure.records import RequestRecord
from tools.measure.sender import Sender, open_session
from tools.measure.workload import Request, Workload
from tools.targets.target import Endpoint

__all__ = ["drive", "probe", "run_load", "run_warm_up", "warm_up"]

Result = TypeVar("Result")

_REFUSED = (400, 422)


def drive(
    endpoint: Endpoint,
    workload: Workload,
    *,
    dialect: Dialect | None = None,
    on_progress: ProgressCallback | None = None,
) -> LoadResult:
    """`run_load` for code without an event loop. Ctrl-C cancels what is in flight and closes every connection."""
    return _run(run_load(endpoint, workload, dialect=dialect, on_progress=on_progress))


def warm_up(endpoint: Endpoint, workload: Workload) -> Dialect:
    """`run_warm_up` for code without an event loop."""
    return _run(run_warm_up(endpoint, workload))


async def run_warm_up(endpoint: Endpoint, workload: Workload) -> Dialect:
    """Probe the endpoint, send the warm-up requests together, and return the dialect to measure with.

    Read the server's counters after this and before `run_load`, and they count the measured requests alone.
    """
    async with open_session(endpoint) as session:
        dialect = await probe(session, endpoint, workload.spec.timeout_s)
        sender = Sender(session, endpoint, dialect, workload.spec.timeout_s)
        await _gather(sender.send(request, due_s=0.0) for request in workload.warmup)
    return dialect


async def probe(session: aiohttp.ClientSession, endpoint: Endpoint, timeout_s: float) -> Dialect:
    """The largest dialect that the server doesn't refuse with 400 or 422, found with one short request per try.

    Any other answer, a good one or an outage, ends the probe: what is wrong with a server shows in the records.
    """
    request = Request(0, ({"role": "user", "content": "say one word"},), 2, 0.0, 3)
    dialect = Dialect()
    while True:
        record = await Sender(session, endpoint, dialect, timeout_s).send(request, due_s=0.0)
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
    was due, however late it was sent. In a closed loop a request is due when its user is free.
    """
    async with open_session(endpoint) as session:
        timeout_s = workload.spec.timeout_s
        if dialect is None:
            dialect = await probe(session, endpoint, timeout_s)
        started_at, cpu_s = time.time(), time.thread_time()
        sender = Sender(session, endpoint, dialect, timeout_s)
        progress = Progress(workload, on_progress)
        if workload.spec.arrivals.kind == "closed":
            records = await _closed_loop(sender, workload, workload.spec.arrivals.concurrency, progress)
        else:
            records = await _open_loop(sender, workload, progress)
        wall_s = sender.now()
        cpu_s = time.thread_time() - cpu_s
    return LoadResult(
        started_at=started_at,
        window_s=max(record.end_s for record in records),
        records=tuple(sorted(records, key=lambda record: record.index)),
        client=ClientHealth.of(records, cpu_s=cpu_s, wall_s=wall_s),
        extras=dialect.extras,
    )


async def _open_loop(sender: Sender, workload: Workload, progress: Progress) -> list[RequestRecord]:
    async def one(request: Request, due_s: float) -> RequestRecord:
        return progress.ended(await sender.send(request, due_s=due_s))

    async with asyncio.TaskGroup() as group:
        tasks = []
        for request in workload.requests:
            due_s = request.scheduled_s or 0.0
            # Absolute, so that one late wake-up doesn't push back every request after it.
            while (wait_s := due_s - sender.now()) > 0:
                await asyncio.sleep(wait_s)  # may wake up to a millisecond early
            tasks.append(group.create_task(one(request, due_s)))
    return [task.result() for task in tasks]


async def _closed_loop(sender: Sender, workload: Workload, concurrency: int, progress: Progress) -> list[RequestRecord]:
    queue = iter(workload.requests)
    records: list[RequestRecord] = []

    async def user() -> None:
        for request in queue:
            records.append(progress.ended(await sender.send(request, due_s=sender.now())))

    await _gather(user() for _ in range(min(concurrency, len(workload.requests))))
    return records


async def _gather(jobs: Iterable[Coroutine[Any, Any, Any]]) -> None:
    async with asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(job)


def _run(job: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(job)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        from uvloop import new_event_loop
    except ImportError:  # not on every platform
        return asyncio.new_event_loop
    return new_event_loop
