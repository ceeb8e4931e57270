"""Serving: from a bound port to a drained exit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from engine.core import Engine
from engine.digest import config_hash, model_digest
from engine.knobs import EngineKnobs
from engine.listening import port_taken
from engine.metrics import EngineMetrics
from engine.model_config import ModelConfig
from engine.resolve import resolve
from engine.server.app import Server
from engine.server.identity import ServerIdentity
from engine.server.loop import EngineLoop

__all__ = ["ServeOptions", "serve"]

SWITCH_INTERVAL_S = 0.0005
"""How long a thread may keep the interpreter. At Python's 5 ms, one busy HTTP handler would hold up every kernel launch
of the engine's thread."""


SHUTDOWN_TIMEOUT_S = 0.1
"""For handlers to write what they have, once the drain is over."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What to serve, and as what; how is for the knobs to say."""

    model_path: Path
    served_model_name: str = ""
    "Name clients send as `model`; the directory's own name by default."
    drain_timeout_s: float = 30.0
    "How long running requests may go on after SIGTERM."


def serve(options: ServeOptions, knobs: EngineKnobs, sock: socket.socket) -> int:
    """Serve on the bound `sock` until told to stop; the exit code.

    Raises:
        StartRefused: the model, the knobs, or a port that somebody else listens on by now.
    """
    effective = resolve(knobs, ModelConfig.load(options.model_path))
    digest = model_digest(options.model_path)
    metrics = EngineMetrics(config_hash(effective.to_dict()), digest)
    # The model is loaded by the thread that will run it. Each thread that calls into OpenMP gets a team of its own, and
    # two teams are more threads than cores: the runtime then puts workers to sleep between kernels, and a decode step
    # of a small model takes half as long again.
    thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
    engine = thread.submit(Engine, options.model_path, knobs, metrics).result()
    identity = ServerIdentity.of(
        engine,
        model=options.served_model_name or options.model_path.resolve().name,
        path=options.model_path,
        digest=digest,
        requested=knobs.to_dict(),
    )
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    return asyncio.run(run(engine, thread, identity, sock, options))


async def run(
    engine: Engine, thread: ThreadPoolExecutor, identity: ServerIdentity, sock: socket.socket, options: ServeOptions
) -> int:
    """Answer requests until a signal or the death of the engine's thread."""
    told_to_stop = asyncio.Event()
    event_loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        if told_to_stop.is_set():
            os._exit(128 + number)
        told_to_stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        event_loop.add_signal_handler(number, on_signal, number)
    engine_loop = EngineLoop(engine, thread)
    server = Server(engine_loop, identity)
    # Cancelling a handler whose client has gone is what aborts its request.
    runner = web.AppRunner(server.app, handler_cancellation=True, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT_S)
    await runner.setup()
    ended = asyncio.wrap_future(engine_loop.ended)
    host, port = sock.getsockname()[:2]
    try:
        try:
            await web.SockSite(runner, sock, backlog=1024).start()
        except OSError as error:
            raise port_taken(host, port, error) from error
        print(f"engine: serving {identity.model} on http://{host}:{port}", file=sys.stderr, flush=True)
        ended.add_done_callback(lambda _: told_to_stop.set())
        await told_to_stop.wait()
        if ended.done():
            # It only ends by itself when it has failed; the exception is the process's last word.
            ended.result()
        server.draining = True
        print(f"engine: draining {engine_loop.num_requests} requests", file=sys.stderr, flush=True)
        await drain(engine_loop, options.drain_timeout_s)
        return 0
    finally:
        await runner.cleanup()
        engine_loop.stop()


async def drain(engine_loop: EngineLoop, timeout_s: float) -> None:
    """Wait until every request is answered, `timeout_s` at most; what is left then is aborted by the cleanup."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while engine_loop.num_requests and not engine_loop.ended.done():
                await asyncio.sleep(0.02)
