"""Day: a whole day under an autoscaler, in ticks, with a replica's means instead of its requests.

A day of a large fleet is billions of requests, so here a tick's traffic is a rate. What is in flight follows from it in
closed form (`Steady`), with a random part as large as a queue's, since an autoscaler remembers the highest it saw; what
exceeds the ceiling piles up; and the promise counts as kept while the replicas that are ready are at least those that
the plan needs for the rate. `operate` plays the same with every request, for as long as that can be afforded; the two
are compared in the tests.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tools.capacity.autoscaler import Autoscaler
from tools.capacity.failures import FailureModel
from tools.capacity.steady import Steady

__all__ = ["DayRun", "simulate_day"]

_TICK_S = 15.0
_SHOWN = 288


@dataclass(frozen=True)
class DayRun:
    """How a day went."""

    name: str
    missed_share: float
    "Of the requests, those that came while the promise wasn't kept."
    missed_minutes: float
    replica_hours: float
    "Replicas that were paid for: ready, starting or draining."
    most_replicas: int
    changes: int
    "Times that the autoscaler changed its mind."
    points: tuple[tuple[float, float, int, int], ...]
    "(seconds, requests/s, replicas needed, replicas ready), thinned to a few hundred."

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {
            "points": [list(point) for point in self.points]
        }


def simulate_day(
    name: str,
    scaler: Autoscaler,
    rate_at: Callable[[float], float],
    needed_at: Callable[[float], int],
    steady: Steady,
    *,
    cv: float = 1.0,
    length_s: float,
    cold_start_s: float,
    start: int,
    failures: FailureModel | None = None,
    seed: int = 0,
) -> DayRun:
    """Play `length_s` seconds.

    Args:
        rate_at: requests per second at a moment.
        needed_at: replicas that keep the promise at a rate.
        start: replicas that are ready at the beginning.
        failures: one by one; each is replaced after the repair time, which includes its cold start.

    What is in flight varies about its mean k(r) as a process of Ornstein and Uhlenbeck: requests come at rate r and
    leave at the pace of k, which to first order gives the variance k * gain and the memory exp(-t * r / (k * gain)),
    with gain = (r / k) dk/dr: 1 where a step doesn't depend on its company, more where it does.
    """
    random = np.random.default_rng(seed)
    most_rps = steady.most_rps()
    levels = np.linspace(0.0, most_rps, 257)
    decoding = np.array([steady.decoding(level) for level in levels])
    gains = np.ones_like(levels)
    gains[1:] = np.maximum(np.gradient(decoding, levels)[1:] * levels[1:] / np.maximum(decoding[1:], 1e-12), 1.0)
    ready, starting = start, deque[tuple[float, int]]()
    backlog = missed = total = paid = luck = 0.0
    missed_ticks = changes = most = 0
    next_sync = 0.0
    points = []
    ticks = int(length_s / _TICK_S)
    for tick in range(ticks):
        now = tick * _TICK_S
        while starting and starting[0][0] <= now:
            ready += starting.popleft()[1]
        if failures is not None and ready:
            lost = int(random.binomial(ready, -np.expm1(-_TICK_S / failures.mttf_s)))
            if lost:
                ready -= lost
                _start(starting, now + failures.repair_s, lost)
        rate = rate_at(now)
        ceiling = ready * most_rps
        backlog = max(backlog + (rate - ceiling) * _TICK_S, 0.0)
        needed = needed_at(rate)
        served = min(rate, ceiling)
        seated = ready * float(np.interp(served / ready, levels, decoding)) if ready else 0.0
        gain = float(np.interp(served / ready, levels, gains)) if ready else 1.0
        memory = math.exp(-_TICK_S * served / (seated * gain)) if seated else 0.0
        luck = memory * luck + math.sqrt(1 - memory**2) * random.standard_normal()
        in_flight = max(seated + math.sqrt(seated * gain * (1 + cv**2) / 2) * luck, 0.0) + backlog
        if ready < needed or backlog > 0:
            missed += rate * _TICK_S
            missed_ticks += 1
        total += rate * _TICK_S
        if now >= next_sync:
            next_sync = now + scaler.sync_s
            current = ready + sum(count for _, count in starting)
            change = scaler.desired(now, current, in_flight) - current
            if change:
                changes += 1
            if change > 0:
                _start(starting, now + cold_start_s, change)
            else:
                ready = _stop(ready, starting, -change)
        there = ready + sum(count for _, count in starting)
        most = max(most, there)
        paid += there * _TICK_S
        if tick % max(ticks // _SHOWN, 1) == 0:
            points.append((now, rate, needed, ready))
    return DayRun(
        name=name,
        missed_share=missed / total if total else 0.0,
        missed_minutes=missed_ticks * _TICK_S / 60,
        replica_hours=paid / 3600,
        most_replicas=most,
        changes=changes,
        points=tuple(points),
    )


def _start(starting: deque[tuple[float, int]], ready_s: float, count: int) -> None:
    starting.append((ready_s, count))
    if len(starting) > 1 and starting[-2][0] > ready_s:
        ordered = sorted(starting)
        starting.clear()
        starting.extend(ordered)


def _stop(ready: int, starting: deque[tuple[float, int]], count: int) -> int:
    """Those that aren't ready yet go first, latest first; returns how many are left ready."""
    while count and starting:
        at, waiting = starting.pop()
        gone = min(waiting, count)
        count -= gone
        if waiting > gone:
            starting.append((at, waiting - gone))
    return ready - count
