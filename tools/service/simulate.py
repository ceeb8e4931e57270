"""Simulate: play a load on one replica, step by step, without a server.

The rules are those of a continuously batching engine with chunked prefill (Orca's iteration-level scheduling, Sarathi's
mixed steps): first come, first served; a request holds a seat from its first prompt chunk to its last token; each step
gives every decoding sequence one token and spends what is left of the step's tokens on prompts, oldest first; the step
that reads a prompt's end yields its first token. No preemption: the load is taken to fit into memory.

Steps between which nobody comes, goes or is read to are all alike, so a run of them is one event; the work is a few
events a request whatever the length of its answer.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.measure.records import RequestRecord
from tools.service.jobs import Job
from tools.service.replica import Replica

__all__ = ["Played", "simulate"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Played:
    """What a load became on a replica. Arrays are in the order of the jobs; times are seconds from the load's start."""

    due_s: Floats
    prompt_tokens: Counts
    output_tokens: Counts
    first_step: Counts
    "Place in `steps_s` of the step that yielded the first token; the others follow, one a step."
    steps_s: Floats
    "Ends of all steps, ascending."

    @property
    def first_token_s(self) -> Floats:
        moments: Floats = self.steps_s[self.first_step]
        return moments

    @property
    def last_token_s(self) -> Floats:
        moments: Floats = self.steps_s[self.first_step + self.output_tokens - 1]
        return moments

    @property
    def ttft_s(self) -> Floats:
        """Due to first token, per job."""
        return self.first_token_s - self.due_s

    @property
    def e2el_s(self) -> Floats:
        """Due to last token, per job."""
        return self.last_token_s - self.due_s

    @property
    def tpot_s(self) -> Floats:
        """Mean gap between the tokens of each job that has more than one."""
        many = self.output_tokens > 1
        return (self.last_token_s - self.first_token_s)[many] / (self.output_tokens[many] - 1)

    @property
    def itl_s(self) -> Floats:
        """Gaps between successive tokens, pooled over all jobs, in no particular order."""
        change = np.zeros(len(self.steps_s) + 1, np.int64)
        np.add.at(change, self.first_step + 1, 1)
        np.add.at(change, self.first_step + self.output_tokens, -1)
        decoding = change.cumsum()[1:-1]  # gap i lies between steps i and i + 1
        return np.repeat(np.diff(self.steps_s), decoding)

    @property
    def window_s(self) -> float:
        """From the start until the last token."""
        return float(self.steps_s[-1]) if len(self.steps_s) else 0.0

    def records(self) -> tuple[RequestRecord, ...]:
        """The jobs as a client without delays would have recorded them, so that every summary applies."""
        return tuple(
            RequestRecord(
                index=index,
                scheduled_s=float(self.due_s[index]),
                sent_s=float(self.due_s[index]),
                outcome="ok",
                end_s=times[-1],
                http_status=200,
                first_chunk_s=times[0],
                token_times_s=tuple(times),
                token_counts=(1,) * len(times),
                prompt_tokens=int(self.prompt_tokens[index]),
                output_tokens=len(times),
                cached_tokens=0,
                token_source="usage",
                finish_reason="length",
            )
            for index, times in enumerate(self._token_times())
        )

    def _token_times(self) -> list[list[float]]:
        ends = self.first_step + self.output_tokens
        spans = zip(self.first_step.tolist(), ends.tolist(), strict=True)
        return [self.steps_s[first:end].tolist() for first, end in spans]


def simulate(
    replica: Replica, jobs: Sequence[Job], *, users: int | None = None, lag_s: Sequence[float] | None = None
) -> Played:
    """Play `jobs` on `replica`.

    Args:
        lag_s: per job, how much later than others of its moment the engine gets to know of it; nothing by default.
        users: of a closed loop: each starts the next job that follows no other when all it has asked for is answered.
            None for an open loop, where such jobs have a moment at which they are due.

    Raises:
        ValueError: a job without a moment in an open loop, or one that follows a later job.
    """
    return _Play(replica, jobs, users, lag_s or [0.0] * len(jobs)).run()


class _Play:
    """The state of one simulation."""

    def __init__(self, replica: Replica, jobs: Sequence[Job], users: int | None, lag_s: Sequence[float]) -> None:
        self.replica, self.jobs, self.lag_s = replica, jobs, lag_s
        self.now_s = 0.0
        self.due_s = [0.0] * len(jobs)
        self.first_step = [0] * len(jobs)
        self.runs: list[tuple[float, float, int]] = []
        "(end of the first step, seconds a step, steps)."
        self.steps = 0
        "Steps done so far."
        self.followers: dict[int, list[int]] = {}
        self.heads: deque[int] = deque()
        "Jobs of a closed loop that nobody has started yet."
        self.coming: list[tuple[float, int]] = []
        "Heap of (when the engine may schedule it, job)."
        self.waiting: deque[int] = deque()
        self.reading: deque[list[int]] = deque()
        "[job, tokens still to be read], oldest first."
        self.decoding: list[tuple[int, int]] = []
        "Heap of (step that yields the last token, job)."
        self._enter(users)
        most = min(replica.curve.seats, len(jobs))
        self.decode_s = [replica.step_s(sequences, 0) for sequences in range(most + 1)]

    def _enter(self, users: int | None) -> None:
        for place, job in enumerate(self.jobs):
            if job.after >= place:
                raise ValueError(f"job {place} follows job {job.after}; expected an earlier one")
            if job.after >= 0:
                self.followers.setdefault(job.after, []).append(place)
            elif users is not None:
                self.heads.append(place)
            elif job.due_s is None:
                raise ValueError(f"job {place} has no moment at which it is due; expected one in an open loop")
            else:
                self._expect(place, job.due_s)
        for _ in range(min(users or 0, len(self.heads))):
            self._expect(self.heads.popleft(), 0.0)

    def _expect(self, place: int, due_s: float) -> None:
        self.due_s[place] = due_s
        heapq.heappush(self.coming, (due_s + self.replica.latency_s + self.lag_s[place], place))

    def run(self) -> Played:
        while True:
            self._arrive()
            if self.reading:
                self._read()
            elif self.decoding:
                self._decode()
            elif self.coming:
                self.now_s = self.coming[0][0]
            else:
                return self._played()

    def _arrive(self) -> None:
        coming, waiting = self.coming, self.waiting
        while coming and coming[0][0] <= self.now_s:
            waiting.append(heapq.heappop(coming)[1])
        vacant = self.replica.curve.seats - len(self.decoding) - len(self.reading)
        while waiting and vacant > 0:
            place = waiting.popleft()
            self.reading.append([place, max(self.jobs[place].prompt_tokens, 1)])
            vacant -= 1

    def _read(self) -> None:
        """One step that gives every decoding sequence a token and reads prompts with the rest of its tokens."""
        sequences = len(self.decoding)
        room = max(self.replica.chunk_tokens - sequences, 1)
        read = 0
        done = []
        while self.reading and read < room:
            head = self.reading[0]
            part = min(head[1], room - read)
            read += part
            head[1] -= part
            if head[1]:
                break
            done.append(self.reading.popleft()[0])
        self._advance(self.replica.step_s(sequences, read), 1)
        for place in done:
            self.first_step[place] = self.steps - 1
            heapq.heappush(self.decoding, (self.steps + self.jobs[place].output_tokens - 2, place))
        self._leave()

    def _decode(self) -> None:
        """Steps without a prompt until somebody has a last token, or comes while there is a seat."""
        sequences = len(self.decoding)
        step_s = self.decode_s[sequences]
        count = self.decoding[0][0] - self.steps + 1
        if self.coming and sequences < self.replica.curve.seats and step_s > 0:
            count = min(count, max(math.ceil((self.coming[0][0] - self.now_s) / step_s), 1))
        self._advance(step_s, count)
        self._leave()

    def _advance(self, step_s: float, count: int) -> None:
        self.runs.append((self.now_s + step_s, step_s, count))
        self.now_s += step_s * count
        self.steps += count

    def _leave(self) -> None:
        decoding = self.decoding
        while decoding and decoding[0][0] < self.steps:
            _, place = heapq.heappop(decoding)
            followers = self.followers.get(place)
            if followers:
                for follower in followers:
                    self._expect(follower, self.now_s + self.jobs[follower].gap_s)
            elif self.heads:
                self._expect(self.heads.popleft(), self.now_s)

    def _played(self) -> Played:
        table = np.array(self.runs, np.float64).reshape(-1, 3)
        counts = table[:, 2].astype(np.int64)
        begin = np.repeat(counts.cumsum() - counts, counts)
        within = np.arange(counts.sum()) - begin
        return Played(
            due_s=np.array(self.due_s),
            prompt_tokens=np.array([job.prompt_tokens for job in self.jobs], np.int64),
            output_tokens=np.array([job.output_tokens for job in self.jobs], np.int64),
            first_step=np.array(self.first_step, np.int64),
            steps_s=np.repeat(table[:, 0], counts) + within * np.repeat(table[:, 1], counts),
        )
