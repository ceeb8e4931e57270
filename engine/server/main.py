"""Serving: the engine in a process of its own, HTTP in this one, and how both end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys

import uvloop
from aiohttp import web

from engine.knobs import EngineKnobs
from engine.listening import port_taken
from engine.server.app import Server
from engine.server.identity import ServerIdentity
from engine.server.link import EngineLink
from engine.server.options import ServeOptions
from engine.server.process import EngineProcess
from engine.server.reports import Ready
from engine.tokenizer import ModelTokenizer

__all__ = ["serve"]

SHUTDOWN_TIMEOUT_S = 0.1
"""For handlers to write what they have, once the drain is over or the engine is gone."""

LAST_WORDS_S = 1.0
"""For clients and for /health to learn that the engine is gone, before the server goes too."""


def serve(process: EngineProcess, options: ServeOptions, knobs: EngineKnobs, sock: socket.socket) -> int:
    """Serve on the bound `sock` until told to stop; the exit code. `process` is loading meanwhile.

    Raises:
        StartRefused: the model, the knobs, or a port that somebody else listens on by now; or the engine died.
    """
    if options.server_cpus:
        os.sched_setaffinity(0, options.server_cpus)
    tokenizer = ModelTokenizer(options.model_path)
    ready = process.wait_ready()
    identity = ServerIdentity(options, knobs, ready, process.pid)
    return uvloop.run(run(process, ready, tokenizer, identity, sock, options))


async def run(
    process: EngineProcess,
    ready: Ready,
    tokenizer: ModelTokenizer,
    identity: ServerIdentity,
    sock: socket.socket,
    options: ServeOptions,
) -> int:
    """Answer requests until a signal, or until the engine is gone."""
    told_to_stop = asyncio.Event()
    event_loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        if told_to_stop.is_set():
            os._exit(128 + number)
        told_to_stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        event_loop.add_signal_handler(number, on_signal, number)
    link = EngineLink(process, ready)
    await link.connect()
    server = Server(link, tokenizer, identity, options)
    # Cancelling a handler whose client has gone is what aborts its request.
    runner = web.AppRunner(server.app, handler_cancellation=True, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT_S)
    await runner.setup()
    host, port = sock.getsockname()[:2]
    try:
        try:
            await web.SockSite(runner, sock, backlog=1024).start()
        except OSError as error:
            raise port_taken(host, port, error) from error
        print(f"engine: serving {identity.model} on http://{host}:{port}", file=sys.stderr, flush=True)
        link.ended.add_done_callback(lambda _: told_to_stop.set())
        await told_to_stop.wait()
        if link.ended.done():
            await asyncio.sleep(LAST_WORDS_S)
            raise process.death(await link.stop(), "while serving")
        server.draining = True
        print(f"engine: draining {link.num_requests} requests", file=sys.stderr, flush=True)
        await drain(link, options.drain_timeout_s)
        return 0
    finally:
        await runner.cleanup()
        await link.stop()


async def drain(link: EngineLink, timeout_s: float) -> None:
    """Wait until every request is answered, `timeout_s` at most; what is left then is aborted by the cleanup."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while link.num_requests and not link.ended.done():
                await asyncio.sleep(0.02)
