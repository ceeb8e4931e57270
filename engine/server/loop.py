"""EngineLoop: the thread that owns the engine, and the bridge between it and asyncio."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from collections.abc import Sequence as ReadOnlyList
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

from engine.core import Delta, Engine
from engine.errors import RequestRefused
from engine.sampling import SamplingParams

__all__ = ["Answer", "EngineLoop"]

T = TypeVar("T")


class Answer:
    """The deltas of one request, as they come. Leaving the `with` before the last one aborts the request."""

    def __init__(self, request_id: str, close: Callable[[Answer], None]) -> None:
        self.request_id = request_id
        self.finished = False
        self._close = close
        self._deltas: asyncio.Queue[Delta] = asyncio.Queue()

    def put(self, delta: Delta) -> None:
        self._deltas.put_nowait(delta)

    def __aiter__(self) -> Answer:
        return self

    async def __anext__(self) -> Delta:
        if self.finished:
            raise StopAsyncIteration
        delta = await self._deltas.get()
        self.finished = delta.finish_reason is not None
        return delta

    def __enter__(self) -> Answer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(self)


class EngineLoop:
    """Steps the engine in a thread of its own while there is work.

    Everything that changes the engine runs there, between two steps; everything else runs on the event loop and never
    waits for a step. `ended` completes when the thread ends: with its exception, if that is why.
    """

    def __init__(self, engine: Engine, thread: ThreadPoolExecutor) -> None:
        """`thread` is where `engine` was made; the loop keeps it until `stop`."""
        self.engine = engine
        self._inbox: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._answers: dict[str, Answer] = {}
        self._left_waiting = 0
        self._event_loop = asyncio.get_running_loop()
        self._thread = thread
        self.ended: Future[None] = thread.submit(self._run)

    @property
    def num_requests(self) -> int:
        """Requests that are being answered, waiting ones included."""
        return len(self._answers)

    def submit(self, request_id: str, prompt: ReadOnlyList[int], params: SamplingParams, *, arrived_s: float) -> Answer:
        """Hand a request to the engine.

        Raises:
            RequestRefused: 400 where the engine can't serve it, 503 where the queue is full.
        """
        self.engine.check(prompt, params)
        if self._num_waiting() >= self.engine.knobs.max_queue_len:
            self.engine.metrics.rejected.inc()
            raise RequestRefused(
                f"the queue is full: {self.engine.knobs.max_queue_len} requests are waiting; try again later",
                status=503,
                code="queue_full",
            )
        answer = self._answers[request_id] = Answer(request_id, self._close)
        self._inbox.put(lambda: self.engine.add(request_id, prompt, params, arrived_s=arrived_s))
        return answer

    async def call(self, function: Callable[[], T]) -> T:
        """What `function` returns, run between two steps."""
        result: Future[T] = Future()
        self._inbox.put(lambda: result.set_result(function()))
        return await asyncio.wrap_future(result)

    def stop(self) -> None:
        """End the thread after the step it is in, and wait for it."""
        self._inbox.put(None)
        self._thread.shutdown()

    def _num_waiting(self) -> int:
        """Requests that wait or will after the next step: those that aren't running, less the seats they will find.

        A free seat counts only if the last step left nobody waiting: else it is the KV cache that is full.
        """
        running = len(self.engine.scheduler.running)
        seats = 0 if self._left_waiting else self.engine.knobs.max_num_seqs - running
        return self.num_requests - running - seats

    def _close(self, answer: Answer) -> None:
        del self._answers[answer.request_id]
        if not answer.finished:
            self._inbox.put(lambda: self.engine.abort(answer.request_id))

    def _run(self) -> None:
        while self._take_commands():
            deltas = self.engine.step()
            self._left_waiting = len(self.engine.scheduler.waiting)
            if deltas:
                self._event_loop.call_soon_threadsafe(self._deliver, deltas)

    def _take_commands(self) -> bool:
        """Run what has been asked for, waiting for it while the engine is idle; False when it is to stop."""
        while True:
            try:
                command = self._inbox.get(block=not self.engine.has_work)
            except queue.Empty:
                return True
            if command is None:
                return False
            command()

    def _deliver(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            answer = self._answers.get(delta.request_id)
            if answer is not None:
                answer.put(delta)
