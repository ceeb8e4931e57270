"""PlainBalancer: HTTP requests to the backend with the fewest of them under way, each on a connection of its own.

It knows nothing of models: it reads a request's head, asks the backend to close when it has answered, and passes bytes
on as they come.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager

__all__ = ["PlainBalancer"]

_CHUNK = 1 << 16


class PlainBalancer(AbstractContextManager["PlainBalancer"]):
    """Listens on a free port of 127.0.0.1, in a thread of its own, until the context is left."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.served = [0] * len(ports)
        "Requests given to each backend."
        self._ports = ports
        self._busy = [0] * len(ports)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None, "enter the context first"
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def __enter__(self) -> PlainBalancer:
        self._thread.start()
        started = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop)
        self._server = started.result(timeout=10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(timeout=10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            head = await client.readuntil(b"\r\n\r\n")
            lines = head[:-4].split(b"\r\n")
            length = sum(int(line.split(b":", 1)[1]) for line in lines if line.lower().startswith(b"content-length:"))
            body = await client.readexactly(length)
            kept = [line for line in lines if not line.lower().startswith(b"connection:")]
            await self._pass_on(b"\r\n".join([*kept, b"Connection: close", b"", b""]) + body, to_client)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # whoever hung up knows it
        finally:
            to_client.close()

    async def _pass_on(self, request: bytes, to_client: asyncio.StreamWriter) -> None:
        at = min(range(len(self._ports)), key=lambda i: (self._busy[i], self.served[i]))
        self._busy[at] += 1
        self.served[at] += 1
        try:
            backend, to_backend = await asyncio.open_connection("127.0.0.1", self._ports[at])
            try:
                to_backend.write(request)
                while answer := await backend.read(_CHUNK):
                    to_client.write(answer)
                    await to_client.drain()
            finally:
                to_backend.close()
        finally:
            self._busy[at] -= 1
