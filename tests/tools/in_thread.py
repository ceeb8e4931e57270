"""A server in a thread with an event loop of its own, for as long as a block lasts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager

from aiohttp import web

__all__ = ["listening", "serve_in_thread"]

Serving = Callable[[], AbstractAsyncContextManager[int]]
"""Serves while its block lasts; gives the port."""


@contextmanager
def serve_in_thread(serving: Serving) -> Iterator[int]:
    """Enter `serving` in a thread; gives its port on 127.0.0.1."""
    loop = asyncio.new_event_loop()
    started, stop = threading.Event(), asyncio.Event()
    port = 0

    async def main() -> None:
        nonlocal port
        async with serving() as port:
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


@asynccontextmanager
async def listening(app: web.Application, *, cancels: bool = False) -> AsyncIterator[int]:
    """`app` on a free loopback port. `cancels`: a handler ends when its client hangs up."""
    runner = web.AppRunner(app, handler_cancellation=cancels, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
