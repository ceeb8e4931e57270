"""EngineLink: the server's end of the socket to the engine's process."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from collections.abc import Sequence as ReadOnlyList
from types import TracebackType
from typing import Any, Literal

from engine.delta import Delta, FinishReason
from engine.errors import RequestRefused
from engine.limits import check_request
from engine.sampling import SamplingParams
from engine.server.orders import Add, Call, Finish, Rejected
from engine.server.process import EngineProcess
from engine.server.reports import Ready, Refusal, Report, Result
from engine.server.wire import frame, read_frame

__all__ = ["Answer", "EngineLink"]

CALL_TIMEOUT_S = 10.0
"""For an answer to a call: numbers are told at once, the rest is done between two steps."""


class Answer:
    """The deltas of one request, as they come. Leaving the `with` before the last one aborts the request."""

    def __init__(self, request_id: str, close: Callable[[Answer, FinishReason], None]) -> None:
        self.request_id = request_id
        self.finished = False
        self._close = close
        self._deltas: asyncio.Queue[Delta | RequestRefused] = asyncio.Queue()

    def put(self, delta: Delta | RequestRefused) -> None:
        self._deltas.put_nowait(delta)

    def end(self, reason: FinishReason) -> None:
        """No more is wanted: a stop string is complete."""
        if not self.finished:
            self.finished = True
            self._close(self, reason)

    def __aiter__(self) -> Answer:
        return self

    async def __anext__(self) -> Delta:
        """Raises: RequestRefused, where the engine refuses the request after all, or is gone."""
        if self.finished:
            raise StopAsyncIteration
        delta = await self._deltas.get()
        if isinstance(delta, RequestRefused):
            self.finished = True
            raise delta
        self.finished = delta.finish_reason is not None
        return delta

    def __enter__(self) -> Answer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end("abort")


class EngineLink:
    """Hands requests to the engine and its deltas to their answers. Lives on one event loop."""

    def __init__(self, process: EngineProcess, ready: Ready) -> None:
        self.ready = ready
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        "Completes when the engine's process is gone."
        self._process = process
        self._answers: dict[str, Answer] = {}
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count()
        self._running = self._waiting = 0
        self._heard_s = time.monotonic()

    @property
    def num_requests(self) -> int:
        """Requests that are being answered, waiting ones included."""
        return len(self._answers)

    def heartbeat_age_s(self) -> float:
        """Seconds since the engine last said anything: it does so after every step, and four times a second at rest."""
        return time.monotonic() - self._heard_s

    async def connect(self) -> None:
        reader, self._writer = await asyncio.open_connection(sock=self._process.sock)
        self._listening = asyncio.create_task(self._listen(reader))

    def submit(
        self,
        request_id: str,
        prompt: ReadOnlyList[int],
        params: SamplingParams,
        *,
        arrived_s: float,
        priority: int = 0,
        deadline_s: float | None = None,
    ) -> Answer:
        """Hand a request to the engine.

        Args:
            arrived_s, deadline_s: on the monotonic clock, which is the same in all processes.

        Raises:
            RequestRefused: 400 where the engine can't serve it, 503 where the queue is full, 500 where it is gone.
        """
        config = self.ready.config
        check_request(prompt, params, int(config["max_model_len"]), self.ready.vocab_size)
        if self.ended.done():
            raise engine_gone()
        if self._num_waiting() >= int(config["max_queue_len"]):
            self._write(Rejected())
            raise RequestRefused(
                f"the queue is full: {config['max_queue_len']} requests are waiting; try again later",
                status=503,
                code="queue_full",
            )
        answer = self._answers[request_id] = Answer(request_id, self._close)
        self._write(Add(request_id, prompt, params, arrived_s, priority, deadline_s))
        return answer

    async def call(self, name: Literal["metrics", "reset_prefix_cache"]) -> Any:
        """What the engine has to say to `name`.

        Raises:
            RequestRefused: 500, the engine is gone; 503, it is stuck.
        """
        if self.ended.done():
            raise engine_gone()
        number = next(self._numbers)
        result = self._calls[number] = asyncio.get_running_loop().create_future()
        self._write(Call(number, name))
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return await result
        except TimeoutError:
            raise RequestRefused("the engine doesn't answer; see /health", status=503, code="engine_stuck") from None
        finally:
            del self._calls[number]

    async def stop(self) -> int:
        """End the engine's process after the step it is in; its exit code."""
        self._listening.cancel()
        self._writer.close()
        return await asyncio.to_thread(self._process.end)

    def _write(self, order: Add | Finish | Call | Rejected) -> None:
        if not self.ended.done():
            self._writer.write(frame(order))

    def _num_waiting(self) -> int:
        """Requests that wait or will after the next step: those that aren't running, less the seats they will find.

        A free seat counts only if the last step left nobody waiting: else it is the KV cache that is full.
        """
        seats = 0 if self._waiting else int(self.ready.config["max_num_seqs"]) - self._running
        return self.num_requests - self._running - seats

    def _close(self, answer: Answer, reason: FinishReason) -> None:
        if self._answers.pop(answer.request_id, None) is not None:
            self._write(Finish(answer.request_id, reason))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                self._take(await read_frame(reader))
                self._heard_s = time.monotonic()
        except (asyncio.IncompleteReadError, OSError):
            self.ended.set_result(None)
            for answer in self._answers.values():
                answer.put(engine_gone())
            for call in self._calls.values():
                if not call.done():
                    call.set_exception(engine_gone())

    def _take(self, report: Report | Refusal | Result) -> None:
        if isinstance(report, Report):
            self._running, self._waiting = report.running, report.waiting
            for delta in report.deltas:
                if answer := self._answers.get(delta.request_id):
                    if delta.finish_reason is not None:
                        del self._answers[delta.request_id]
                    answer.put(delta)
        elif isinstance(report, Refusal):
            if answer := self._answers.pop(report.request_id, None):
                answer.put(RequestRefused(report.sentence, status=report.status, code=report.code, param=report.param))
        elif (result := self._calls.get(report.number)) is not None and not result.done():
            result.set_result(report.value)


def engine_gone() -> RequestRefused:
    return RequestRefused("the engine's process is gone; the server is ending", status=500, code="engine_gone")
