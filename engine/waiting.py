"""WaitingQueue: sequences that aren't running, by priority and arrival; each step O(log n), however long it is."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

from engine.sequence import Sequence

__all__ = ["WaitingQueue"]


class WaitingQueue:
    """Who goes first: lower priority number, then earlier arrival; a preempted one thus returns to its place.

    Whoever leaves from the middle stays in the heaps as a ghost and is dropped when it surfaces.
    """

    def __init__(self) -> None:
        self._members: dict[int, Sequence] = {}
        "By number of arrival."
        self._ranks: list[tuple[int, int]] = []
        self._deadlines: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._members.values())

    def push(self, sequence: Sequence) -> None:
        self._members[sequence.arrival] = sequence
        heapq.heappush(self._ranks, sequence.rank)
        if sequence.deadline_s < math.inf:
            heapq.heappush(self._deadlines, (sequence.deadline_s, sequence.arrival))

    def first(self) -> Sequence | None:
        """Who is next; it stays in the queue."""
        while self._ranks and self._ranks[0][1] not in self._members:
            heapq.heappop(self._ranks)
        return self._members[self._ranks[0][1]] if self._ranks else None

    def discard(self, sequence: Sequence) -> None:
        """`sequence` leaves; one that isn't there is left alone."""
        self._members.pop(sequence.arrival, None)
        if len(self._ranks) > 2 * len(self._members) + 64:
            self._ranks = [rank for rank in self._ranks if rank[1] in self._members]
            heapq.heapify(self._ranks)
            self._deadlines = [item for item in self._deadlines if item[1] in self._members]
            heapq.heapify(self._deadlines)

    def expired(self, now_s: float) -> list[Sequence]:
        """Those whose deadline has passed; they stay in the queue until discarded."""
        late = []
        while self._deadlines and self._deadlines[0][0] <= now_s:
            _, arrival = heapq.heappop(self._deadlines)
            if arrival in self._members:
                late.append(self._members[arrival])
        return late
