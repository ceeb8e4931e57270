"""Asker: sends the questions of an evaluation to one server, so many at a time, and reads its answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp

from tools.targets.target import Endpoint, LaunchFailed

__all__ = [
    "AT_ONCE",
    "CHAT",
    "COMPLETIONS",
    "Asker",
    "NoAnswer",
    "choice",
    "on_live_connection",
    "open_asker",
    "unreachable",
]

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
AT_ONCE = 24
"Questions under way at a time: enough to keep a server busy, few enough not to be turned away."
TIMEOUT_S = 300.0
BUSY = (429, 503)
PAUSE_S = 0.5
"Before a question is put again to a server that was too busy."

T = TypeVar("T")


class NoAnswer(Exception):
    """The server refused, or what it said can't be used. The sentence says which."""


class Asker:
    """A session with one server. Close it with `open_asker`."""

    def __init__(self, session: aiohttp.ClientSession, endpoint: Endpoint, timeout_s: float) -> None:
        self._session = session
        self._base_url, self._model = endpoint.base_url, endpoint.model
        self._timeout_s = timeout_s
        self._seats = asyncio.Semaphore(AT_ONCE)

    async def ask(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """What the server answers to `body`, asked when a seat is free. One that is too busy is asked again.

        Raises:
            NoAnswer: refused, no answer in time, or no JSON object.
            LaunchFailed: kind `unreachable`; nothing answers there any more.
        """
        async with self._seats:
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await self._until_free(path, {"model": self._model, **body})
            except TimeoutError:
                raise NoAnswer(f"no answer within {self._timeout_s:g} s") from None
            except aiohttp.ClientConnectionError as error:
                raise unreachable(f"a question got no answer: {type(error).__name__}: {error}") from error
            except (aiohttp.ClientError, ValueError) as error:
                raise NoAnswer(f"expected JSON, found {type(error).__name__}: {error}") from error

    async def _until_free(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return await on_live_connection(lambda: self._patiently(path, body))

    async def _patiently(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        while True:
            async with self._session.post(f"{self._base_url}{path}", json=body, allow_redirects=False) as response:
                if response.status == 200:
                    said: Any = await response.json(content_type=None)
                    if not isinstance(said, dict):
                        raise NoAnswer(f"expected a JSON object, found {str(said)[:200]}")
                    return said
                if response.status not in BUSY:
                    raise NoAnswer(f"answered {response.status}: {(await response.text())[:200]}")
            await asyncio.sleep(PAUSE_S)

    async def all(self, questions: Iterable[Awaitable[T]]) -> list[T]:
        """The answers, in the order of the questions; the first failure ends all."""
        tasks = [asyncio.ensure_future(question) for question in questions]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()


async def on_live_connection(ask: Callable[[], Awaitable[T]]) -> T:
    """What `ask` comes to; asked again where the connection that it took from the pool turns out to be closed.

    A server may close a connection that it hasn't said it would (llama.cpp does after each stream), and a client learns
    of that by using it: RFC 9112, section 9.3.1. One that is really down refuses the next, fresh connection.
    """
    for _ in range(AT_ONCE):
        try:
            return await ask()
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            if isinstance(error, aiohttp.ClientConnectorError):
                raise
    return await ask()


@asynccontextmanager
async def open_asker(endpoint: Endpoint, timeout_s: float = TIMEOUT_S) -> AsyncIterator[Asker]:
    """An asker with connections of its own."""
    headers = {"Authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
    async with aiohttp.ClientSession(
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=None),
        connector=aiohttp.TCPConnector(limit=0, ssl=endpoint.trust.context()),
    ) as session:
        yield Asker(session, endpoint, timeout_s)


def choice(body: Mapping[str, Any]) -> dict[str, Any]:
    """The first choice of an answer.

    Raises:
        NoAnswer: there is none.
    """
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise NoAnswer(f"expected choices, found {str(dict(body))[:200]}")
    return choices[0]


def unreachable(sentence: str) -> LaunchFailed:
    """The failure of a server that doesn't say what is needed."""
    return LaunchFailed("unreachable", sentence)
