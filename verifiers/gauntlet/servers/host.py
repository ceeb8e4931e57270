"""Host: runs servers on the loopback address, in one thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from aiohttp import web

from verifiers.gauntlet.servers.engine import Engine

__all__ = ["Host"]

_LOOPBACK = "127.0.0.1"
_STARTED_S = 10.0

T = TypeVar("T")


class Host:
    """Starts and stops servers. Close it, and all are gone."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gauntlet-servers", daemon=True)
        self._thread.start()
        self._runners: dict[str, web.AppRunner] = {}

    def start(self, engine: Engine) -> str:
        """Serve `engine` on a free port; returns its base URL."""
        return self._run(self._start(engine))

    def stop(self, base_url: str) -> None:
        """End one server and its connections."""
        self._run(self._runners.pop(base_url).cleanup())

    def close(self) -> None:
        """End all servers and the thread."""
        for base_url in list(self._runners):
            self.stop(base_url)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STARTED_S)
        self._loop.close()

    def __enter__(self) -> Host:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def _start(self, engine: Engine) -> str:
        runner = web.AppRunner(engine.application(), access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        site = web.TCPSite(runner, _LOOPBACK, 0)
        await site.start()
        base_url = f"http://{_LOOPBACK}:{runner.addresses[0][1]}"
        self._runners[base_url] = runner
        return base_url

    def _run(self, job: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(job, self._loop).result(_STARTED_S)
