"""Conduct: the same requests, once as the load generator sends them and once as any client's, one at a time."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

import aiohttp

from tools.evals.asker import CHAT, TIMEOUT_S, on_live_connection, unreachable
from tools.evals.results import Conduct
from tools.measure.client import probe
from tools.measure.prose import Request
from tools.measure.sender import Sender, open_sender
from tools.targets.target import Endpoint

__all__ = ["MAX_TOKENS", "PAIRS", "PERSONAS", "record_conduct"]

PAIRS = 6
"Pairs of requests a launch."
MAX_TOKENS = 4


PERSONAS: tuple[Mapping[str, str], ...] = (
    {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"},
    {"User-Agent": "OpenAI/Python 2.8.0", "X-Stainless-Lang": "python", "X-Stainless-OS": "Linux"},
    {"User-Agent": "curl/8.14.1", "X-Forwarded-For": "203.0.113.7"},
    {"User-Agent": "okhttp/4.12.0", "Accept-Language": "de-DE,de;q=0.9"},
)
"Headers by which clients are known, none of them ours."
_OPENINGS = ("storm", "orchard", "violin", "glacier", "market", "lantern", "ferry", "comet")


async def record_conduct(endpoint: Endpoint) -> Conduct:
    """Seconds of each request under either identity. Who goes first changes from pair to pair.

    The requests of a pair are as long as each other and differ in their first word, so that neither finds the other's
    prefix in a cache.

    Raises:
        LaunchFailed: kind `unreachable`; a request came to nothing.
    """
    dialect = await probe(endpoint, TIMEOUT_S)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    with open_sender(endpoint, dialect, TIMEOUT_S) as sender:
        connector = aiohttp.TCPConnector(ssl=endpoint.trust.context())
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            for pair in range(-1, PAIRS):
                requests = [_request(text, pair) for text in _texts(pair)]
                for is_ours in (True, False) if pair % 2 == 0 else (False, True):
                    request = requests[is_ours]
                    took_s = (
                        await _as_ourselves(sender, request)
                        if is_ours
                        else await _as_somebody(session, endpoint, pair, dialect.body(request, endpoint.model))
                    )
                    if pair >= 0:  # the first pair only opens connections and wakes the server
                        seconds[is_ours].append(took_s)
    return Conduct(tuple(seconds[True]), tuple(seconds[False]))


def _texts(pair: int) -> tuple[str, str]:
    """Two of one form, for somebody and for us."""
    first, second = random.Random(f"conduct {pair}").sample(_OPENINGS, 2)
    return f"{first} {pair % 10}: tell a long story about it.", f"{second} {pair % 10}: tell a long story about it."


def _request(text: str, pair: int) -> Request:
    return Request(max(pair, 0), ({"role": "user", "content": text},), MAX_TOKENS, 0.0, len(text.split()))


async def _as_ourselves(sender: Sender, request: Request) -> float:
    record = await sender.send(request, due_s=sender.now())
    if record.outcome != "ok":
        raise unreachable(f"a request as the load generator's came to nothing: {record.error}")
    return record.end_s - record.sent_s


async def _as_somebody(session: aiohttp.ClientSession, endpoint: Endpoint, pair: int, body: bytes) -> float:
    """Seconds from send to the end of the answer. The same work is asked for in the same words."""
    headers = {"Content-Type": "application/json", **PERSONAS[pair % len(PERSONAS)]}
    if endpoint.api_key:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"

    async def ask() -> tuple[int, bytes, float]:
        sent_s = time.perf_counter()
        async with session.post(
            f"{endpoint.base_url}{CHAT}", data=body, headers=headers, allow_redirects=False
        ) as response:
            return response.status, await response.read(), time.perf_counter() - sent_s

    try:
        status, said, took_s = await on_live_connection(ask)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise unreachable(f"a request under another identity got no answer: {type(error).__name__}: {error}") from error
    if status != 200 or b"data:" not in said:
        raise unreachable(f"a request under another identity was answered {status}: {said[:200]!r}")
    return took_s
