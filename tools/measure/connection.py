"""Connection: HTTP/1.1 as a load generator needs it. Bytes are stamped as they arrive and handed on at once.

The parsing is llhttp's (through httptools); what is ours is the order of things: the clock is read before anything
else is done with a read, nothing is copied twice, and nothing is started (no task, no timer) per chunk.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, cast

import httptools

__all__ = ["Alarm", "Connection", "Ending", "Reply", "Sink"]

# After an answer's last event only the end of its body is due; reading it lets the connection be used again.
_LINGER_S = 0.1
_PREVIEW_BYTES = 4096

Ending = Literal["complete", "timed_out", "dropped", "bad_http"]


class Sink(Protocol):
    """What takes the body of a 200 as it comes."""

    done: bool
    "Nothing more is expected."

    def feed(self, received: bytes, at_s: float) -> None:
        """May set `done`; must not raise."""
        ...


@dataclass(slots=True)
class Reply:
    """How one exchange ended. Times are seconds on the performance counter."""

    ending: Ending = "dropped"
    detail: str = ""
    status: int | None = None
    headers: dict[bytes, bytes] = field(default_factory=dict)
    "Lower-case names."
    preview: bytes = b""
    "The beginning of a body that isn't an event stream."
    received_bytes: int = 0
    last_s: float | None = None
    "When the last bytes came that the answer needed."
    wall_s: float = 0.0
    "Unix seconds when the headers had come."

    @property
    def is_event_stream(self) -> bool:
        kind = self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        return self.status == 200 and kind == b"text/event-stream"


@dataclass(slots=True)
class Alarm:
    """Something that is due at a moment and mustn't wait until all that has arrived is read: the loop's own timers do.
    `ring` is called after the first read past `due_s` (seconds on the performance counter)."""

    due_s: float = math.inf
    ring: Callable[[], None] = lambda: None


class Connection(asyncio.Protocol):
    """One connection, at most one exchange at a time."""

    def __init__(self, alarm: Alarm, over: Callable[[Connection], None]) -> None:
        """`over` is called once after each exchange, when nothing more of it can come."""
        self._alarm = alarm
        self._over = over
        self._lingering = False
        "The answer is complete, the end of its body hasn't come yet."
        self.transport: asyncio.Transport
        self.closed = False
        self.reusable = False
        self.idle_since_s = 0.0
        self._reply: Reply | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's isn't a subclass

    def exchange(self, head: bytes, body: bytes, sink: Sink, reply: Reply) -> asyncio.Future[None]:
        """Send a request; the future is done when `reply` is."""
        self._loop = asyncio.get_running_loop()
        self._finished = self._loop.create_future()
        self._reply, self._sink = reply, sink
        self._streams = False
        self._whole = False
        self._parser = httptools.HttpResponseParser(self)
        self._parse = self._parser.feed_data
        self.reusable = False
        self.transport.write(head + body)
        return self._finished

    def data_received(self, data: bytes) -> None:
        self._at_s = time.perf_counter()
        reply = self._reply
        if reply is None:
            self._rest(data)
            return
        reply.received_bytes += len(data)
        reply.last_s = self._at_s
        try:
            self._parse(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._finish("bad_http", str(error) or "a switch to another protocol")
            return
        if self._whole or self._sink.done or len(reply.preview) >= _PREVIEW_BYTES:
            self._finish("complete")
        if self._at_s >= self._alarm.due_s:
            self._alarm.ring()

    def _rest(self, data: bytes) -> None:
        """What comes after an answer's last event: the end of its body, after which the connection can be kept."""
        if not self._lingering:  # nobody asked: whatever it is, the next answer mustn't begin with it
            self.close()
            return
        try:
            self._parse(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._whole, self.reusable = True, False
        if self._whole:
            self._lingering = False
            self._over(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        if self._reply is not None:
            # Without a length the end of the connection is the end of the body; in chunks it is one cut short.
            headers = self._reply.headers
            framed = b"content-length" in headers or b"chunked" in headers.get(b"transfer-encoding", b"").lower()
            whole = self._sink.done or (self._reply.status is not None and not framed and error is None)
            self._finish("complete" if whole else "dropped", str(error) if error else "the connection was closed")

    def give_up(self, reply: Reply) -> None:
        """End the exchange that `reply` is of as timed out, if it is still the one under way."""
        if self._reply is reply:
            self._finish("timed_out")

    def close(self) -> None:
        self.closed = True
        self.transport.abort()

    # What the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reply is not None:  # else a trailer
            self._reply.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        assert self._reply is not None
        self._reply.status = self._parser.get_status_code()
        self._reply.wall_s = time.time()
        self._streams = self._reply.is_event_stream

    def on_body(self, body: bytes) -> None:
        if self._streams:
            self._sink.feed(body, self._at_s)
        else:
            assert self._reply is not None
            self._reply.preview += body[:_PREVIEW_BYTES]

    def on_message_complete(self) -> None:
        if self._reply is None or (self._reply.status is not None and self._reply.status >= 200):
            self._whole = True
            self.reusable = bool(self._parser.should_keep_alive())
        else:
            self._reply.headers.clear()  # an interim answer (100, 103): the real one follows

    def _finish(self, ending: Ending, detail: str = "") -> None:
        reply, self._reply = self._reply, None
        if reply is None:
            return
        reply.ending, reply.detail = ending, detail
        if ending == "complete" and self._streams and not self._whole and not self.closed:
            self._lingering = True
            self._loop.call_later(_LINGER_S, self._linger_no_more)
        else:
            self._over(self)
        if not self._finished.done():
            self._finished.set_result(None)

    def _linger_no_more(self) -> None:
        if self._lingering:
            self._lingering = False
            self._over(self)
