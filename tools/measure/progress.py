"""Progress: how many requests have ended, and how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Callable

from tools.measure.records import RequestRecord
from tools.measure.workload import Workload

__all__ = ["Progress", "ProgressCallback"]

ProgressCallback = Callable[[int, int, float | None], None]
"""(requests done, requests in all, seconds left or None). Called from the load's own loop: be quick, don't raise."""


class Progress:
    """Counts requests as they end and tells `callback`."""

    def __init__(self, workload: Workload, callback: ProgressCallback | None) -> None:
        self._start = time.perf_counter()
        self._total = len(workload.requests)
        self._last_due_s = max((request.scheduled_s or 0.0 for request in workload.requests), default=0.0)
        self._open = workload.spec.arrivals.kind != "closed"
        self._callback = callback
        self._done = 0
        self._spent_s = 0.0

    def ended(self, record: RequestRecord) -> RequestRecord:
        self._done += 1
        self._spent_s += record.end_s - record.scheduled_s
        if self._callback is not None:
            self._callback(self._done, self._total, self._left_s())
        return record

    def _left_s(self) -> float:
        """An open loop ends one latency after its last arrival; a closed one goes on at the rate it has had."""
        elapsed_s = time.perf_counter() - self._start
        if self._done == self._total:
            return 0.0
        by_rate_s = elapsed_s / self._done * (self._total - self._done)
        if not self._open or elapsed_s > self._last_due_s:
            return by_rate_s
        return self._last_due_s - elapsed_s + self._spent_s / self._done
