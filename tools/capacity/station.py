"""Station: one replica in a simulated fleet, moved from event to event in virtual time.

It keeps the rules of `tools.service.simulate`, to which it gives equal results: whole steps, prompts read in chunks
beside the decoding sequences, a seat held from the first chunk to the last token. Between two events all steps are
alike, so that a replica's state is one number (how many tokens every sequence has advanced), and a request costs about
three events however long its answer is. What differs is that a station can be asked at any moment how many requests it
has, which is what a balancer looks at.
"""

from __future__ import annotations

import math
from collections import deque
from heapq import heappop, heappush

from tools.capacity.book import Book
from tools.service.replica import Replica

__all__ = ["Pace", "Station"]

_BITS = 32
"""Of a heap entry, how many hold the request; the rest hold the virtual time at which it has all its tokens."""
_REQUEST = (1 << _BITS) - 1


class Pace:
    """A replica's speed as a table, shared by all stations of a fleet."""

    __slots__ = ("chunk_tokens", "latency_s", "seats", "steps", "token_s")

    def __init__(self, replica: Replica) -> None:
        curve = replica.curve
        self.seats = curve.seats
        self.chunk_tokens = replica.chunk_tokens
        self.token_s = curve.prefill_s_per_token
        self.latency_s = replica.latency_s
        "Passes outside the engine: it delays a request and occupies nobody."
        steps, longest = [replica.step_s(0, 0)], 0.0
        for count in range(1, self.seats + 1):
            longest = max(longest, replica.step_s(count, 0))
            steps.append(longest)
        self.steps = steps
        "Seconds of a step by the number of sequences, prompts apart; made to ascend, as more never take less."


class Station:
    """Seats, a queue in front of them, and where its clock stands. `advance` it before looking at it."""

    __slots__ = (
        "_ends",
        "_finish",
        "_left",
        "_pace",
        "_progress",
        "_read",
        "_reading",
        "_since",
        "_stepping",
        "_waiting",
        "book",
        "draining",
        "index",
        "outstanding",
        "position",
    )

    def __init__(self, index: int, book: Book, pace: Pace, now: float) -> None:
        self.index = index
        self.book = book
        self.outstanding = 0
        "Requests that wait, are read or decode."
        self.draining = False
        self.position = 0
        "In the balancer's list."
        self._pace = pace
        self._since = now
        "The boundary between steps from which everything below counts."
        self._progress = 0
        "Tokens that a sequence would have got that has been here from the start: the station's virtual time."
        self._finish: list[int] = []
        "A heap of those that decode: the virtual time at which each is done, and who it is."
        self._waiting: deque[int] = deque()
        self._reading: deque[int] = deque()
        "Seated, their prompts not yet read; oldest first."
        self._left = 0
        "Tokens of the oldest that are still to be read after the step under way."
        self._stepping = False
        "Whether a step that reads is under way, until `_ends`; it completes the first `_read` of `_reading`."
        self._ends = 0.0
        self._read = 0

    def enter(self, request: int) -> None:
        """Append a request. The station must stand at the moment at which it comes."""
        self._waiting.append(request)
        self.outstanding += 1

    def resume(self, request: int, left: int) -> None:
        """Seat a request that lacks `left` >= 1 tokens, as if it had been here before the simulation began."""
        heappush(self._finish, (self._progress + left) << _BITS | request)
        self.outstanding += 1

    def abandon(self) -> list[int]:
        """Everything it holds, which is lost to it."""
        lost = [*(entry & _REQUEST for entry in self._finish), *self._reading, *self._waiting]
        self._finish.clear()
        self._reading.clear()
        self._waiting.clear()
        self._stepping, self.outstanding = False, 0
        return lost

    def advance(self, until: float) -> None:
        """Let everything happen that happens no later than `until`."""
        finish, waiting, steps, seats = self._finish, self._waiting, self._pace.steps, self._pace.seats
        while True:
            if self._stepping:
                if self._ends > until:
                    return
                self._end_step()
            elif finish:
                count = len(finish)
                step, since = steps[count], self._since
                whole = (finish[0] >> _BITS) - self._progress
                if waiting and count < seats:
                    # Who comes in the middle of a step waits for its end.
                    begun = math.ceil((self.book.entered[waiting[0]] - since) / step)
                    if begun < whole:
                        whole = begun if begun > 0 else 0
                now = since + whole * step
                if now > until:
                    return
                if since >= self.book.gaps_from_s:
                    self.book.decode[count] += whole * count
                self._progress += whole
                self._since = now
                if finish[0] >> _BITS <= self._progress:
                    self._pop_done(now)
            elif waiting:
                now = self.book.entered[waiting[0]]
                if now > until:
                    return
                self._since = max(now, self._since)
            else:
                return
            if self._reading or (waiting and len(finish) < seats):
                self._begin_step()

    def next_done_s(self) -> float:
        """A moment before which nothing that is seated is completed, unless it is already there; infinite for none."""
        finish, steps = self._finish, self._pace.steps
        if not self._stepping:
            if not finish:
                return math.inf
            return self._since + ((finish[0] >> _BITS) - self._progress) * steps[len(finish)]
        ahead = max((finish[0] >> _BITS) - self._progress - 1, 0) if finish else math.inf
        for request, _ in zip(self._reading, range(self._read), strict=False):
            ahead = min(ahead, self.book.outputs[request] - 1)
        # Where no prompt ends with this step and nobody decodes, nobody can be done when it ends.
        return self._ends + (ahead * steps[len(finish) + self._read] if ahead < math.inf else 0.0)

    def earliest_s(self, request: int, now: float) -> float:
        """A moment before which a request that enters now can't be done."""
        pace, book = self._pace, self.book
        step = pace.steps[len(self._finish) or 1]
        return now + book.prompts[request] * pace.token_s + (book.outputs[request] - 1) * min(step, pace.steps[1])

    def _begin_step(self) -> None:
        """Seat who waits, and begin a step that reads as many tokens as it has room for."""
        waiting, reading, prompts = self._waiting, self._reading, self.book.prompts
        pace, decoding = self._pace, len(self._finish)
        vacant = pace.seats - decoding - len(reading)
        while waiting and vacant > 0:
            if not reading:
                self._left = prompts[waiting[0]]
            reading.append(waiting.popleft())
            vacant -= 1
        room = max(pace.chunk_tokens - decoding, 1)
        tokens = done = 0
        left = self._left
        for place, request in enumerate(reading):
            if place:
                left = prompts[request]
            part = min(left, room - tokens)
            tokens += part
            left -= part
            if left or part == 0:
                break
            done += 1
        self._read, self._left = done, left
        self._ends = self._since + pace.steps[decoding] + tokens * pace.token_s
        self._stepping = True

    def _end_step(self) -> None:
        """Every sequence has one more token, and whose prompt has been read has its first."""
        book, finish, ends, outputs = self.book, self._finish, self._ends, self.book.outputs
        if finish:
            if self._since >= book.gaps_from_s:
                book.mixed.append((ends - self._since, len(finish)))
            self._progress += 1
            if finish[0] >> _BITS <= self._progress:
                self._pop_done(ends)
        for _ in range(self._read):
            request = self._reading.popleft()
            book.first[request] = ends
            if outputs[request] <= 1:
                book.done[request] = ends
                self.outstanding -= 1
            else:
                heappush(finish, (self._progress + outputs[request] - 1) << _BITS | request)
        self._since = ends
        self._stepping = False

    def _pop_done(self, now: float) -> None:
        finish, done, progress = self._finish, self.book.done, self._progress
        while finish and finish[0] >> _BITS <= progress:
            done[heappop(finish) & _REQUEST] = now
            self.outstanding -= 1
