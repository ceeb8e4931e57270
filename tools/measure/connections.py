"""Connections: those kept to one server, as many as a load needs, and the requests that are sent over them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tools.measure.connection import Alarm, Connection, Reply, Sink
from tools.targets.trust import Trust

__all__ = ["Connections", "Post"]

# Servers commonly close an idle connection after 5 s; a request sent into that moment would fail by nobody's fault.
_KEEP_ALIVE_S = 4.0


@dataclass(slots=True)
class Post:
    """A request under way."""

    head: bytes
    body: bytes
    sink: Sink
    deadline_s: float
    "On the loop's clock."
    connection: Connection | None = None
    reply: Reply = field(default_factory=Reply)
    finished: asyncio.Future[None] | None = None

    def sent_on(self, connection: Connection) -> None:
        """Send it now."""
        self.connection, self.reply = connection, Reply()
        self.finished = connection.exchange(self.head, self.body, self.sink, self.reply)


class Connections:
    """Kept-alive connections to one server, as many as are needed. Close it to end them all."""

    def __init__(self, base_url: str, headers: Mapping[str, str], trust: Trust | None = None) -> None:
        """`base_url`: scheme, host, port, and a path that all requests begin with (may be empty).

        Raises:
            ValueError: not an http or https URL.
            OSError: the trusted certificates can't be read.
        """
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"expected an http(s) URL, found {base_url!r}")
        self._tls = (trust or Trust()).context() if parts.scheme == "https" else None
        self._host = parts.hostname
        self._port = parts.port or (443 if self._tls else 80)
        self._path = parts.path.rstrip("/")
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in {"Host": parts.netloc, **headers}.items())
        self.alarm = Alarm()
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()

    def begin(self, path: str, body: bytes, sink: Sink, *, timeout_s: float) -> Post:
        """Start to POST `body`: where a connection is kept it is sent at once, else `finish` makes one."""
        head = f"POST {self._path}{path} HTTP/1.1\r\n{self._headers}Content-Length: {len(body)}\r\n\r\n".encode(
            "latin-1"
        )
        post = Post(head, body, sink, asyncio.get_running_loop().time() + timeout_s)
        kept = self._kept()
        if kept is not None:
            post.sent_on(kept)
        return post

    async def finish(self, post: Post) -> Reply:
        """Read the answer: a 200's event stream into the post's sink, the beginning of anything else.

        Nothing that the server does raises, except that nobody is there. Cancelling closes the connection.

        Raises:
            OSError: no connection.
        """
        if post.connection is not None:
            reply = await self._answered(post)
            if reply.ending != "dropped" or reply.received_bytes:
                return reply
            # The server closed an idle connection as we wrote to it, as HTTP allows: not an answer, not a fault.
        try:
            async with asyncio.timeout_at(post.deadline_s) as limit:
                made = await self._connect()
        except TimeoutError:
            if not limit.expired():
                raise  # the operating system's own limit: nobody is there
            return Reply(ending="timed_out")
        post.sent_on(made)
        return await self._answered(post)

    def close(self) -> None:
        """End every connection at once, also those in use."""
        for connection in list(self._all):
            connection.close()
        self._all.clear()
        self._idle.clear()

    def _kept(self) -> Connection | None:
        now_s = time.perf_counter()
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and now_s - connection.idle_since_s < _KEEP_ALIVE_S:
                return connection
            self._drop(connection)
        return None

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: Connection(self.alarm, self._over), self._host, self._port, ssl=self._tls
        )
        self._all.add(connection)
        return connection

    async def _answered(self, post: Post) -> Reply:
        connection = post.connection
        assert connection is not None
        timer = asyncio.get_running_loop().call_at(post.deadline_s, connection.give_up, post.reply)
        try:
            assert post.finished is not None
            await post.finished
        except asyncio.CancelledError:
            connection.close()
            self._drop(connection)
            raise
        finally:
            timer.cancel()
        return post.reply

    def _over(self, connection: Connection) -> None:
        """Keep it for the next request, where that's possible."""
        if connection.reusable and not connection.closed:
            connection.idle_since_s = time.perf_counter()
            self._idle.append(connection)
        else:
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._all.discard(connection)
        if not connection.closed:
            connection.close()
