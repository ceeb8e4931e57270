"""RewritingProxy: a server in front of another that changes what is asked or what is answered."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import aiohttp
from aiohttp import web

__all__ = ["Rewrite", "RewritingProxy"]

Json = dict[str, Any]


class Rewrite:
    """Changes nothing; each way to change something is a subclass."""

    def request(self, path: str, body: Json) -> Json:
        return body

    def answer(self, path: str, body: Json) -> Json:
        """Of an answer that doesn't stream."""
        return body

    def delay_s(self, headers: Mapping[str, str]) -> float:
        return 0.0


class RewritingProxy(AbstractContextManager["RewritingProxy"]):
    """Listens on a free port of 127.0.0.1, in a thread of its own, until the context is left."""

    def __init__(self, base_url: str, rewrite: Rewrite) -> None:
        self.url = ""
        self._base_url = base_url
        self._rewrite = rewrite
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None

    def __enter__(self) -> RewritingProxy:
        self._thread.start()
        self._do(self._start)
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._stop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    def _do(self, step: Callable[[], Any]) -> None:
        asyncio.run_coroutine_threadsafe(step(), self._loop).result(timeout=30)

    async def _start(self) -> None:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None), connector=aiohttp.TCPConnector(limit=0)
        )
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _stop(self) -> None:
        assert self._runner is not None and self._session is not None
        await self._runner.cleanup()
        await self._session.close()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        raw = await request.read()
        if raw:
            raw = json.dumps(self._rewrite.request(request.path, json.loads(raw))).encode()
        await asyncio.sleep(self._rewrite.delay_s(request.headers))
        async with self._session.request(
            request.method, self._base_url + request.path, data=raw, headers={"Content-Type": "application/json"}
        ) as answer:
            kind = answer.headers.get("Content-Type", "")
            if kind.startswith("text/event-stream"):
                stream = web.StreamResponse(status=answer.status, headers={"Content-Type": kind})
                await stream.prepare(request)
                async for chunk in answer.content.iter_any():
                    await stream.write(chunk)
                return stream
            said = await answer.read()
            if answer.status == 200 and kind.startswith("application/json"):
                said = json.dumps(self._rewrite.answer(request.path, json.loads(said))).encode()
            return web.Response(status=answer.status, body=said, headers={"Content-Type": kind})
