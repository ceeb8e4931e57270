"""Servers that speak HTTP byte by byte as they please: for what no framework would let a server do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from tests.tools.in_thread import serve_in_thread
from tools.targets.target import Endpoint

__all__ = ["serve_bytes"]

Answering = Callable[[bytes], AsyncIterator[bytes]]
"""From a request's body to what is written, piece by piece; the connection is closed at its end unless `keep`."""


@contextmanager
def serve_bytes(answering: Answering, *, keep: bool = False, opened: list[float] | None = None) -> Iterator[Endpoint]:
    """Serve on a free loopback port until the block ends; `opened` gets the moment of each connection."""

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if opened is not None:
            opened.append(time.monotonic())
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

    @asynccontextmanager
    async def serving() -> AsyncIterator[int]:
        server = await asyncio.start_server(connection, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    with serve_in_thread(serving) as port:
        yield Endpoint(f"http://127.0.0.1:{port}", "raw")
