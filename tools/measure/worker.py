"""A load worker: takes a share of a load over stdin, drives it, brings the records home over stdout.

`python -m tools.measure.worker`, started by `workers`. Messages are pickles, each after its length.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import struct
import sys
import threading
from dataclasses import dataclass
from typing import Any, BinaryIO

from tools.measure.client import loop_factory, run_share, undisturbed
from tools.measure.dialect import Dialect
from tools.measure.load import ClientHealth
from tools.measure.records import RequestRecord
from tools.measure.share import Share
from tools.targets.target import Endpoint

__all__ = ["STOP", "Home", "Task", "receive", "send", "work"]

STOP = "stop"


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker is given; the moment to count from follows when every worker is ready."""

    endpoint: Endpoint
    share: Share
    dialect: Dialect


@dataclass(frozen=True, slots=True)
class Home:
    """What a worker brings home."""

    records: list[RequestRecord]
    health: ClientHealth


def send(pipe: BinaryIO, what: object) -> None:
    data = pickle.dumps(what, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.write(struct.pack("<Q", len(data)) + data)
    pipe.flush()


def receive(pipe: BinaryIO) -> Any:
    """What our own process at the other end sent.

    Raises:
        EOFError: the pipe was closed.
    """
    head = pipe.read(8)
    if len(head) < 8:
        raise EOFError("the pipe was closed")
    (length,) = struct.unpack("<Q", head)
    return pickle.loads(pipe.read(length))


def work(orders: BinaryIO, news: BinaryIO) -> None:
    """A worker's life: take a share, say that it's ready, drive it, bring the records home."""
    task: Task = receive(orders)
    with undisturbed():
        send(news, True)
        start_s: float = receive(orders)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            records, health = runner.run(_driven(task, start_s, orders, news))
    send(news, Home(records, health))


async def _driven(
    task: Task, start_s: float, orders: BinaryIO, news: BinaryIO
) -> tuple[list[RequestRecord], ClientHealth]:
    stop = asyncio.Event()
    listening = (orders.fileno(), asyncio.get_running_loop(), stop)
    threading.Thread(target=_heed, args=listening, daemon=True).start()

    def told(record: RequestRecord) -> None:
        send(news, _brief(record))

    return await run_share(task.endpoint, task.share, task.dialect, start_s, told, stop)


def _brief(record: RequestRecord) -> RequestRecord:
    """As much of a record as progress needs."""
    return RequestRecord(record.index, record.scheduled_s, record.sent_s, record.outcome, record.end_s)


def _heed(orders: int, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Whatever is said after the start means: send nothing more. The end of the pipe means that the parent is gone."""
    if os.read(orders, 1):
        loop.call_soon_threadsafe(stop.set)
        while os.read(orders, 4096):
            pass
    os._exit(1)


if __name__ == "__main__":
    # By its own name, so that what is pickled here is known there.
    from tools.measure import worker

    worker.work(sys.stdin.buffer, sys.stdout.buffer)
