"""Sender: one request to a chat completions endpoint, from the socket to its record."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from tools.measure.answer import Answer, AnswerFault, quoted
from tools.measure.dialect import Dialect
from tools.measure.records import Outcome, RequestRecord
from tools.measure.workload import Request
from tools.targets.target import Endpoint

__all__ = ["Sender", "open_session"]

_PATH = "/v1/chat/completions"
# Servers commonly close an idle connection after 5 s; a request sent into that moment would fail by nobody's fault.
_KEEP_ALIVE_S = 4.0
# A read gives all that has arrived; a small buffer would pause the socket at long answers and inflate every gap.
_READ_BUFFER_BYTES = 2**20
# After [DONE] only the end of the body is due; reading it lets the connection be used again.
_LINGER_S = 0.1


@contextlib.asynccontextmanager
async def open_session(endpoint: Endpoint) -> AsyncIterator[aiohttp.ClientSession]:
    """A session without a will of its own: no pool limit, no time limit, no cookies, no proxy."""
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    if endpoint.api_key is not None:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    async with aiohttp.ClientSession(
        endpoint.base_url,
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None, sock_read=None),
        read_bufsize=_READ_BUFFER_BYTES,
    ) as session:
        yield session


class Sender:
    """Sends requests over one session. Times are seconds since it was made, on the performance counter."""

    def __init__(self, session: aiohttp.ClientSession, endpoint: Endpoint, dialect: Dialect, timeout_s: float) -> None:
        self._start = time.perf_counter()
        self._session = session
        self._endpoint = endpoint
        self._dialect = dialect
        self._timeout_s = timeout_s

    def now(self) -> float:
        return time.perf_counter() - self._start

    async def send(self, request: Request, *, due_s: float) -> RequestRecord:
        """Send `request` now and return what became of it, at the latest `timeout_s` after `due_s`."""
        body = self._dialect.body(request, self._endpoint.model)
        answer = Answer()
        status: int | None = None
        outcome: Outcome = "failed"
        error = ""
        end_s: float | None = None
        sent_s = self.now()
        try:
            async with asyncio.timeout(max(due_s + self._timeout_s - sent_s, 0.0)) as limit:
                async with self._session.post(_PATH, data=body, allow_redirects=False) as response:
                    status = response.status
                    end_s = await self._receive(response, answer)
                    limit.reschedule(None)
                    await _linger(response)
            answer.verify(request.max_tokens)
            outcome = "ok"
        except TimeoutError as failure:
            if limit.expired():
                outcome = "timed_out"
                error = f"timed_out: no complete answer within {self._timeout_s:g} s of the moment it was due"
            else:
                error = f"transport: {quoted(str(failure))}"
        except AnswerFault as fault:
            error = str(fault)
        except aiohttp.ClientConnectorError as failure:
            error = f"connect: {quoted(str(failure))}"
        except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError) as failure:
            error = f"dropped_stream: {quoted(str(failure))}"
        except (aiohttp.ClientError, OSError) as failure:
            error = f"transport: {quoted(str(failure))}"
        return _record(
            answer,
            index=request.index,
            scheduled_s=due_s,
            sent_s=sent_s,
            outcome=outcome,
            end_s=self.now() if end_s is None else end_s,
            http_status=status,
            error=error,
        )

    async def _receive(self, response: aiohttp.ClientResponse, answer: Answer) -> float:
        """Read the whole answer; return when its last bytes came."""
        if response.status != 200:
            raise AnswerFault(f"http_{response.status}", quoted(await _beginning(response)))
        if response.content_type != "text/event-stream":
            text = await _beginning(response)
            slug = "error_payload" if '"error"' in text else "not_event_stream"
            raise AnswerFault(slug, f"expected text/event-stream, found {response.content_type}: {quoted(text)}")
        end_s = self.now()
        while received := await response.content.readany():
            end_s = self.now()  # before parsing, so that our own work isn't measured as the server's
            answer.feed(received, end_s)
            if answer.done:
                break
        return end_s


def _record(answer: Answer, **facts: Any) -> RequestRecord:
    output_tokens, source = answer.output()
    return RequestRecord(
        first_chunk_s=answer.first_chunk_s,
        token_times_s=answer.token_times(),
        token_counts=answer.token_counts(),
        prompt_tokens=answer.prompt_tokens,
        output_tokens=output_tokens,
        cached_tokens=answer.cached_tokens,
        token_source=source,
        token_ids=answer.token_ids(),
        finish_reason=answer.finish_reason,
        **facts,
    )


async def _beginning(response: aiohttp.ClientResponse) -> str:
    return (await response.content.read(4096)).decode("utf-8", errors="replace")


async def _linger(response: aiohttp.ClientResponse) -> None:
    with contextlib.suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(_LINGER_S):
            while await response.content.readany():
                pass
