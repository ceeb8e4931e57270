"""Tracer: what the engine did when, as a file that ui.perfetto.dev opens (Chrome's JSON trace events)."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["Tracer"]

Event = dict[str, Any]

STEPS, HOST = 1, 2
THREADS: Mapping[int, str] = {STEPS: "steps (device)", HOST: "phases (host)"}
NOTHING: AbstractContextManager[None] = nullcontext()


@dataclass(frozen=True, slots=True)
class Span:
    """One stretch of time on a track. Times in seconds on the monotonic clock."""

    name: str
    start_s: float
    end_s: float
    thread: int
    "0 where it belongs to a request."
    request_id: str = ""
    arguments: Mapping[str, object] | None = None

    def order(self) -> tuple[float, float]:
        return self.start_s, -self.end_s if self.thread else 0.0


class Tracer:
    """Keeps the latest `capacity` spans while it is on; off, every call returns at its first line.

    Spans enter when they end, so that whatever is dropped for want of room is dropped whole. One thread writes.
    """

    def __init__(self, capacity: int = 100_000) -> None:
        self.on = False
        self._spans: deque[Span] = deque(maxlen=capacity)
        self._open: dict[str, tuple[str, float]] = {}
        "State each request is in, and since when."
        self._added = 0

    def start(self) -> None:
        """Begin anew. Requests that are under way appear from their next change of state."""
        self._spans.clear()
        self._open.clear()
        self._added = 0
        self.on = True

    def step(self, start_s: float, end_s: float, **arguments: object) -> None:
        """A step was computed; `arguments` say of what it was made."""
        if self.on:
            self._add(Span("step", start_s, end_s, STEPS, arguments=arguments))

    def phase(self, name: str) -> AbstractContextManager[None]:
        """`with tracer.phase("schedule"):` what the host does. May be nested."""
        return Phase(self, name) if self.on else NOTHING

    def request(self, request_id: str, state: str | None, at_s: float) -> None:
        """A request is in `state` from now on (queued, prefill, decode, preempted); None: it is over."""
        if not self.on:
            return
        before = self._open.pop(request_id, None)
        if before is not None:
            self._add(Span(before[0], before[1], at_s, 0, request_id))
        if state is not None:
            self._open[request_id] = state, at_s

    def stop(self, path: Path) -> Path:
        """Write what was kept to `path`, whole or not at all, and be off."""
        self.on = False
        now_s = time.monotonic()
        unfinished = [Span(state, since, now_s, 0, request_id) for request_id, (state, since) in self._open.items()]
        # Of phases that begin together the outer one comes first; of a request's states, the one that came first.
        spans = sorted([*self._spans, *unfinished], key=Span.order)
        origin_s = spans[0].start_s if spans else now_s
        document = {
            "traceEvents": [*thread_names(), *events(spans, origin_s)],
            "displayTimeUnit": "ms",
            "otherData": {"clock": "monotonic", "origin_s": origin_s, "dropped": self._added - len(self._spans)},
        }
        self._spans.clear()
        self._open.clear()
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(document, separators=(",", ":")))
        return temporary.replace(path)

    def _add(self, span: Span) -> None:
        self._added += 1
        self._spans.append(span)


class Phase(AbstractContextManager[None]):
    """The time between entering and leaving."""

    def __init__(self, tracer: Tracer, name: str) -> None:
        self._tracer = tracer
        self._name = name

    def __enter__(self) -> None:
        self._start_s = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._tracer.on:
            self._tracer._add(Span(self._name, self._start_s, time.monotonic(), HOST))


def thread_names() -> Iterator[Event]:
    process = os.getpid()
    yield {"name": "process_name", "ph": "M", "pid": process, "tid": 0, "args": {"name": "engine"}}
    for thread, name in THREADS.items():
        yield {"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def events(spans: list[Span], origin_s: float) -> list[Event]:
    """The spans in the format's words, by time; microseconds from `origin_s`."""
    process, found = os.getpid(), list[Event]()
    for span in spans:
        start, end = round((span.start_s - origin_s) * 1e6, 3), round((span.end_s - origin_s) * 1e6, 3)
        common = {"name": span.name, "pid": process, "tid": span.thread, "ts": start}
        if span.thread:
            found.append({**common, "ph": "X", "dur": round(end - start, 3), "args": span.arguments or {}})
        else:
            asynchronous = {**common, "cat": "request", "id": span.request_id}
            found.append({**asynchronous, "ph": "b", "args": {"request_id": span.request_id}})
            found.append({**asynchronous, "ph": "e", "ts": end})
    # A stable sort: where a state ends as the next one begins, the end stays first.
    return sorted(found, key=itemgetter("ts"))
