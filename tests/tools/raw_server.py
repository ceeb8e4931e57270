"""Servers that speak HTTP byte by byte as they please: for what no framework would let a server do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress

from tools.targets.target import Endpoint

__all__ = ["serve_bytes"]

Answering = Callable[[bytes], AsyncIterator[bytes]]
"""From a request's body to what is written, piece by piece; the connection is closed at its end unless `keep`."""


@contextmanager
def serve_bytes(answering: Answering, *, keep: bool = False) -> Iterator[Endpoint]:
    """Serve on a free loopback port until the block ends."""
    loop = asyncio.new_event_loop()
    started = threading.Event()
    stop = asyncio.Event()
    port = 0

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
                )
                async for piece in answering(await reader.readexactly(length)):
                    writer.write(piece)
                    await writer.drain()
                if not keep:
                    break
        writer.close()

    async def main() -> None:
        nonlocal port
        server = await asyncio.start_server(connection, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        started.set()
        await stop.wait()
        server.close()
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield Endpoint(f"http://127.0.0.1:{port}", "raw")
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
