"""A real chat completions server, over HTTP or HTTPS, that changes in the middle of a load in the way it is told."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from tests.tools.in_thread import serve_in_thread

__all__ = ["CERTIFICATE", "MoodyServer", "serve_moody"]

FILES = Path(__file__).parent / "files" / "external"
CERTIFICATE = FILES / "certificate.pem"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class MoodyServer:
    """What it is now; a test may change any of it while it serves."""

    url: str = ""
    model: str = "moody"
    root: str = "/models/moody-1b"
    fingerprint: str = "fp_1"
    started_at: float | None = 1_700_000_000.0
    counted: int = 0
    counts_of: MoodyServer | None = None
    "Whose metrics it shows, where they aren't its own."
    key: str | None = None
    prefix: str = ""
    settings: dict[str, object] = field(default_factory=dict)
    "What an SGLang server tells of its arguments; PUT /admin starts the server anew with others."
    refusal: tuple[int, dict[str, str]] | None = None
    "Status and headers with which a completion is refused, as long as `refusals` lasts."
    refusals: int = 1 << 30
    turns_after: int = 0
    "So many streamed completions are begun as ever; then `turn` is called, once."
    turn: Callable[[MoodyServer], None] | None = None
    streamed: int = 0
    authorised: list[str | None] = field(default_factory=list)
    "The Authorization header of each request."

    def changing(self, turn: Callable[[MoodyServer], None], after: int) -> None:
        """Change by `turn` when `after` more completions have been begun."""
        self.turn, self.turns_after = turn, self.streamed + after

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._keyed])
        app.router.add_get(self.prefix + "/v1/models", self._models)
        app.router.add_get(self.prefix + "/metrics", self._metrics)
        app.router.add_get(self.prefix + "/server_info", self._info)
        app.router.add_put(self.prefix + "/admin", self._admin)
        app.router.add_post(self.prefix + "/v1/chat/completions", self._chat)
        return app

    @web.middleware
    async def _keyed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization")
        self.authorised.append(given)
        if self.key is not None and given != f"Bearer {self.key}":
            return web.json_response({"error": {"message": "no such key"}}, status=401)
        return await handler(request)

    async def _models(self, request: web.Request) -> web.Response:
        entry = {
            "id": self.model,
            "root": self.root,
            "created": time.time(),
            "owned_by": "sglang" if self.settings else "vllm",
        }
        return web.json_response({"object": "list", "data": [entry]})

    async def _info(self, request: web.Request) -> web.Response:
        if not self.settings:
            raise web.HTTPNotFound
        return web.json_response({"version": "0.5.3", **self.settings})

    async def _admin(self, request: web.Request) -> web.Response:
        self.settings |= await request.json()
        self.started_at, self.counted = (self.started_at or 0.0) + 5, 0
        return web.json_response({})

    async def _metrics(self, request: web.Request) -> web.Response:
        lines = [f'vllm:generation_tokens_total{{engine="0"}} {(self.counts_of or self).counted}']
        if self.started_at is not None:
            lines.append(f"process_start_time_seconds {self.started_at}")
        return web.Response(text="\n".join(lines) + "\n")

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if self.refusal is not None and self.refusals > 0:
            self.refusals -= 1
            status, headers = self.refusal
            return web.json_response({"error": {"message": "not now"}}, status=status, headers=headers)
        tokens = int(body["max_tokens"])
        self.counted += tokens
        told = {"model": self.model, "system_fingerprint": self.fingerprint}
        usage = {"prompt_tokens": 4, "completion_tokens": tokens, "total_tokens": 4 + tokens}
        if not body.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": "word"}, "finish_reason": "length"}
            return web.json_response({**told, "choices": [choice], "usage": usage})
        self.streamed += 1
        if self.turn is not None and self.streamed > self.turns_after:
            turn, self.turn = self.turn, None
            turn(self)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for place in range(tokens):
            last = place == tokens - 1
            choice = {"index": 0, "delta": {"content": "w "}, "finish_reason": "length" if last else None}
            await _say(response, {**told, "choices": [choice]})
            await asyncio.sleep(0.001)
        await _say(response, {**told, "choices": [], "usage": usage})
        await response.write(b"data: [DONE]\n\n")
        return response


async def _say(response: web.StreamResponse, payload: object) -> None:
    await response.write(f"data: {json.dumps(payload)}\n\n".encode())


@contextmanager
def serve_moody(server: MoodyServer | None = None, *, tls: bool = False, port: int = 0) -> Iterator[MoodyServer]:
    """Serve it on a loopback port, a free one by default, until the block ends; `tls`: by a certificate of its own."""
    server = server or MoodyServer()
    context = None
    if tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(FILES / "server.pem")

    @asynccontextmanager
    async def listening() -> AsyncIterator[int]:
        runner = web.AppRunner(server.application(), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
        try:
            yield int(runner.addresses[0][1])
        finally:
            await runner.cleanup()

    with serve_in_thread(listening) as chosen:
        server.url = f"{'https' if tls else 'http'}://127.0.0.1:{chosen}{server.prefix}"
        yield server
