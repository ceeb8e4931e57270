"""A real chat completions server that serves by the rules of a Replica, in real time: seats, chunks of prompts, steps.

Its truth is known, and it is no simulation: time passes, bytes go over sockets, and the event loop adds what it adds.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

from aiohttp import web

from tests.tools.in_thread import listening, serve_in_thread
from tools.service import Replica, ServiceCurve
from tools.targets.target import Endpoint

__all__ = ["SMALL", "QueueingServer", "serve_replica"]

MODEL = "queueing"
TEMPLATE_TOKENS = 4
SMALL = Replica(
    ServiceCurve("queueing", "", 3, 0.010, 0.0002, ((1, 0.010), (3, 0.014)), 52, 7), chunk_tokens=512, latency_share=0.5
)

"A server that saturates in a second."


@dataclass
class _Sequence:
    unread: int
    unwritten: int
    tokens: asyncio.Queue[int] = field(default_factory=asyncio.Queue)


@dataclass
class QueueingServer:
    replica: Replica
    endpoint: Endpoint = field(default_factory=lambda: Endpoint(base_url="", model=MODEL))
    requests: list[dict[str, Any]] = field(default_factory=list)
    most_at_once: int = 0
    date_ahead_s: float = 0.0
    "How far ahead of the true time the Date header of the answers is."
    _waiting: deque[_Sequence] = field(default_factory=deque)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    async def engine(self) -> None:
        """Steps back to back while there is work."""
        reading: deque[_Sequence] = deque()
        decoding: list[_Sequence] = []
        end_s = 0.0
        while True:
            if not (self._waiting or reading or decoding):
                self._wake.clear()
                await self._wake.wait()
            while self._waiting and len(reading) + len(decoding) < self.replica.curve.seats:
                reading.append(self._waiting.popleft())
            self.most_at_once = max(self.most_at_once, len(reading) + len(decoding))
            room, read, started = self.replica.chunk_tokens - len(decoding), 0, []
            while reading and read < room:
                part = min(reading[0].unread, room - read)
                reading[0].unread -= part
                read += part
                if reading[0].unread == 0:
                    started.append(reading.popleft())
            # From the end of the last step, not from now: a late wake-up mustn't make the server slower than its truth.
            begin_s = max(end_s, time.perf_counter() - 0.002)
            end_s = begin_s + self.replica.step_s(len(decoding), read)
            await asyncio.sleep(max(end_s - time.perf_counter(), 0))
            decoding += started
            for sequence in decoding:
                sequence.unwritten -= 1
                sequence.tokens.put_nowait(sequence.unwritten)
            decoding = [sequence for sequence in decoding if sequence.unwritten > 0]

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        prompt = TEMPLATE_TOKENS + sum(
            len(message["content"].replace(".", " .").split()) for message in body["messages"]
        )
        await asyncio.sleep(self.replica.latency_s)
        sequence = _Sequence(prompt, body["max_tokens"])
        self._waiting.append(sequence)
        self._wake.set()
        date = formatdate(time.time() + self.date_ahead_s, usegmt=True)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Date": date})
        await response.prepare(request)
        await _send(response, {"role": "assistant", "content": ""}, prompt, 0, None)
        for written in range(1, body["max_tokens"] + 1):
            left = await sequence.tokens.get()
            await _send(response, {"content": f"w{written} "}, prompt, written, None if left else "length")
        await response.write(b"data: [DONE]\n\n")
        return response

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": MODEL}]})


async def _send(
    response: web.StreamResponse, delta: dict[str, Any], prompt: int, written: int, end: str | None
) -> None:
    usage = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
    chunk = {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": end}],
        "usage": {**usage, "prompt_tokens_details": {"cached_tokens": 0}},
    }
    await response.write(f"data: {json.dumps(chunk)}\n\n".encode())


@contextmanager
def serve_replica(replica: Replica) -> Iterator[QueueingServer]:
    """Serve by the rules of `replica` on a free loopback port until the block ends."""
    server = QueueingServer(replica)

    @asynccontextmanager
    async def serving() -> AsyncIterator[int]:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", server.chat)
        app.router.add_get("/v1/models", server.models)
        async with listening(app) as port:
            engine = asyncio.create_task(server.engine())
            try:
                yield port
            finally:
                engine.cancel()

    with serve_in_thread(serving) as port:
        server.endpoint = Endpoint(base_url=f"http://127.0.0.1:{port}", model=MODEL)
        yield server
