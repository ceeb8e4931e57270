"""Worker: the process that holds the model. `python -m engine.server.worker FD`, started by the server, never by hand.

It says `ready` or `refused` once, then answers orders with the deltas of its steps. Every report is a sign of life;
where there is nothing to report an empty one is sent, so that a stuck step is noticed.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import queue
import signal
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from engine.digest import model_digest
from engine.errors import RequestRefused, StartRefused
from engine.server.orders import Add, Call, Finish, Rejected, Start
from engine.server.reports import Ready, Refusal, Refused, Report, Result
from engine.server.wire import frame, receive_frame

if TYPE_CHECKING:
    from engine.core import Engine

__all__ = ["main"]

BEAT_S = 0.25
"""Between signs of life while there is nothing to do."""

PR_SET_PDEATHSIG = 1


def main(fd: int) -> int:
    began_s = time.monotonic()
    sock = socket.socket(fileno=fd)
    start: Start = receive_frame(sock)
    die_with(start.server_pid)
    if start.cpus:
        os.sched_setaffinity(0, start.cpus)
    # A signal may reach the whole group of processes; the server drains and then says when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        # Not above: torch takes a second to import, and counts the cores it may use when it is.
        from engine.loading import load_engine

        imported_s = time.monotonic()
        digest = model_digest(start.model_path)
        engine = load_engine(start.model_path, start.knobs, digest=digest, say=say)
    except StartRefused as error:
        sock.sendall(frame(Refused(error.kind, error.sentence)))
        return 2
    engine.metrics.startup("import", imported_s - began_s)
    engine.metrics.startup("total", time.monotonic() - began_s)
    sock.sendall(frame(Ready.of(engine, digest)))
    # What lives as long as the engine needs no looking at, and a pause in the middle of a step is worse than a few
    # megabytes of garbage.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    if start.trace_path:
        engine.tracer.start()
    Worker(engine, sock).run()
    if start.trace_path:
        engine.tracer.stop(start.trace_path)
    return 0


class Worker:
    """Steps the engine while there is work; what is ordered is done between two steps."""

    def __init__(self, engine: Engine, sock: socket.socket) -> None:
        self._engine = engine
        self._sock = sock
        self._sending = threading.Lock()
        self._inbox: queue.SimpleQueue[Add | Finish | Call | None] = queue.SimpleQueue()

    def run(self) -> None:
        """Until the server is gone."""
        threading.Thread(target=self._receive, name="receive", daemon=True).start()
        engine, scheduler = self._engine, self._engine.scheduler
        # Whether a sign of life or the end of the orders comes first when the server goes is chance.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while self._take_orders():
                deltas = engine.step() if engine.has_work else []
                self._send(Report(len(scheduler.running), len(scheduler.waiting), deltas))

    def _receive(self) -> None:
        """In a thread of its own: the server never waits for a step, neither to send nor to be told the numbers."""
        while True:
            try:
                order = receive_frame(self._sock)
                match order:
                    case Rejected():
                        self._engine.metrics.rejected()
                    case Call(number, "metrics"):
                        self._send(Result(number, self._engine.metrics.expose()))
                    case _:
                        self._inbox.put(order)
            except (EOFError, OSError):
                self._inbox.put(None)
                return

    def _take_orders(self) -> bool:
        """Do what has been ordered, waiting for it while the engine is idle; False when it is to end."""
        while True:
            idle = not self._engine.has_work
            try:
                order = self._inbox.get(block=idle, timeout=BEAT_S if idle else None)
            except queue.Empty:
                return True
            match order:
                case None:
                    return False
                case Add():
                    self._add(order)
                case Finish():
                    self._engine.finish(order.request_id, order.reason)
                case Call():
                    self._send(Result(order.number, self._engine.reset_prefix_cache()))

    def _add(self, order: Add) -> None:
        try:
            self._engine.add(
                order.request_id,
                order.prompt,
                order.params,
                arrived_s=order.arrived_s,
                priority=order.priority,
                deadline_s=order.deadline_s,
            )
        except RequestRefused as error:
            self._send(Refusal(order.request_id, error.sentence, error.status, error.code, error.param))

    def _send(self, message: Any) -> None:
        with self._sending:
            self._sock.sendall(frame(message))


def say(sentence: str) -> None:
    print(f"engine: {sentence}", file=sys.stderr, flush=True)


def die_with(parent: int) -> None:
    """The kernel ends this process when the server ends, however that happens."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
