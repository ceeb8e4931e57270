"""Sender: one request to a chat completions endpoint, from the socket to its record."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import NoReturn

from tools.measure.answer import Answer, AnswerFault, quoted
from tools.measure.connection import Alarm, Reply
from tools.measure.connections import Connections, Post
from tools.measure.dialect import Dialect
from tools.measure.records import Outcome, RequestRecord
from tools.measure.workload import Request
from tools.targets.target import Endpoint

__all__ = ["Sender", "Sending", "open_sender"]

_PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Sending:
    """A request that was sent. Times are the sender's."""

    request: Request
    due_s: float
    sent_s: float
    answer: Answer
    post: Post


class Sender:
    """Sends requests to one endpoint. Times in its records are seconds since `start_s` on the performance counter,
    which is one clock for all processes of a machine."""

    def __init__(
        self, connections: Connections, model: str, dialect: Dialect, timeout_s: float, start_s: float | None = None
    ) -> None:
        self.start_s = time.perf_counter() if start_s is None else start_s
        self._connections = connections
        self._model = model
        self._dialect = dialect
        self._timeout_s = timeout_s

    def now(self) -> float:
        return time.perf_counter() - self.start_s

    def body(self, request: Request) -> bytes:
        """What `send` will put on the wire; made beforehand, it costs no send any time."""
        return self._dialect.body(request, self._model)

    @property
    def alarm(self) -> Alarm:
        """Rings after the first read past its moment, which is on the performance counter (see `start_s`)."""
        return self._connections.alarm

    async def send(self, request: Request, *, due_s: float, body: bytes | None = None) -> RequestRecord:
        """Send `request` now and return what became of it, at the latest `timeout_s` after `due_s`."""
        return await self.finish(self.begin(request, due_s=due_s, body=body))

    def begin(self, request: Request, *, due_s: float, body: bytes | None = None) -> Sending:
        """Send `request` at once, where a connection is kept; `finish` must follow."""
        body = self.body(request) if body is None else body
        answer = Answer()
        sent_s = self.now()
        timeout_s = max(due_s + self._timeout_s - sent_s, 0.0)
        return Sending(
            request, due_s, sent_s, answer, self._connections.begin(_PATH, body, answer, timeout_s=timeout_s)
        )

    async def finish(self, sending: Sending) -> RequestRecord:
        """What became of it."""
        answer = sending.answer
        outcome: Outcome = "failed"
        error = ""
        reply: Reply | None = None
        try:
            reply = await self._connections.finish(sending.post)
            if reply.ending == "timed_out":
                outcome, error = "timed_out", f"timed_out: {self._waited(answer, reply)}"
            else:
                _check(reply, answer)
                answer.verify(sending.request.max_tokens)
                outcome = "ok"
        except AnswerFault as fault:
            error = str(fault)
        except OSError as failure:
            error = f"connect: {quoted(str(failure))}"
        return self._record(sending, reply, outcome, error)

    def _waited(self, answer: Answer, reply: Reply) -> str:
        """In which way an answer didn't end."""
        limit = f"no complete answer within {self._timeout_s:g} s of the moment it was due"
        tokens = len(answer.token_times())
        if tokens:
            return f"{limit}; the stream stalled or was too slow, after {tokens} chunks with tokens"
        if answer.first_chunk_s is not None:
            return f"{limit}; the stream began, no token came"
        if reply.received_bytes:
            return f"{limit}; {reply.received_bytes} bytes came, and not one whole event"
        return f"{limit}; nothing came"

    def _record(self, sending: Sending, reply: Reply | None, outcome: Outcome, error: str) -> RequestRecord:
        request, answer = sending.request, sending.answer
        output_tokens, source = answer.output()
        start_s = self.start_s
        ended_s = reply.last_s if reply is not None and outcome == "ok" else None
        return RequestRecord(
            index=request.index,
            scheduled_s=sending.due_s,
            sent_s=sending.sent_s,
            outcome=outcome,
            end_s=self.now() if ended_s is None else ended_s - start_s,
            http_status=reply.status if reply is not None else None,
            error=error,
            first_chunk_s=None if answer.first_chunk_s is None else answer.first_chunk_s - start_s,
            token_times_s=tuple([at_s - start_s for at_s in answer.token_times()]),
            token_counts=answer.token_counts(),
            prompt_tokens=answer.prompt_tokens,
            output_tokens=output_tokens,
            cached_tokens=answer.cached_tokens,
            token_source=source,
            token_ids=answer.token_ids(),
            finish_reason=answer.finish_reason,
            conversation=request.conversation,
            turn=request.turn,
            clock_skew_s=_clock_skew_s(reply),
        )


@contextmanager
def open_sender(
    endpoint: Endpoint, dialect: Dialect, timeout_s: float, start_s: float | None = None
) -> Iterator[Sender]:
    """A sender with connections of its own, closed at the end whatever happened. No cookies, no proxy, no redirects."""
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream", "Accept-Encoding": "identity"}
    if endpoint.api_key is not None:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    connections = Connections(endpoint.base_url, headers, endpoint.trust)
    try:
        yield Sender(connections, endpoint.model, dialect, timeout_s, start_s)
    finally:
        connections.close()


def _check(reply: Reply, answer: Answer) -> None:
    """Refuse what isn't a whole event stream.

    Raises:
        AnswerFault: names what it is.
    """
    if answer.fault is None:
        if reply.ending == "bad_http":
            raise AnswerFault("transport", quoted(f"expected HTTP/1.1, found {reply.detail}"))
        if reply.ending == "dropped":
            raise AnswerFault("dropped_stream", quoted(reply.detail))
        if reply.status != 200:
            raise AnswerFault(f"http_{reply.status}", f"{_preview(reply)}{_elsewhere(reply)}")
        if not reply.is_event_stream:
            _refuse_body(reply)


def _elsewhere(reply: Reply) -> str:
    """When or where a refusal says to ask again."""
    told = ""
    for name in ("Retry-After", "Location"):
        if (value := reply.headers.get(name.lower().encode())) is not None:
            told += f" ({name}: {quoted(value.decode('latin-1'))})"
    return told


def _refuse_body(reply: Reply) -> NoReturn:
    text = _preview(reply)
    slug = "error_payload" if '"error"' in text else "not_event_stream"
    found = reply.headers.get(b"content-type", b"no content type").decode("latin-1")
    raise AnswerFault(slug, f"expected text/event-stream, found {quoted(found)}: {text}")


def _preview(reply: Reply) -> str:
    return quoted(reply.preview.decode("utf-8", errors="replace"))


def _clock_skew_s(reply: Reply | None) -> float | None:
    """How far the server's clock is ahead of ours, by its Date header (which has whole seconds)."""
    stamp = reply.headers.get(b"date") if reply is not None else None
    if reply is None or stamp is None:
        return None
    try:
        return parsedate_to_datetime(stamp.decode("latin-1")).timestamp() - reply.wall_s
    except ValueError:
        return None
