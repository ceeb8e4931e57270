"""Operate: a fleet under an autoscaler, with every request: traffic changes, replicas fail and start cold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tools.capacity.autoscaler import Autoscaler
from tools.capacity.book import Book
from tools.capacity.failures import FailureModel
from tools.capacity.fleet import Fleet, FleetModel
from tools.capacity.mix import Mix
from tools.capacity.simulate import Simulated, no_collection, observed, residual, unit_gaps
from tools.capacity.station import Pace
from tools.capacity.steady import Steady

__all__ = ["Operated", "Operation", "arrivals_at", "operate"]

Seconds = NDArray[np.float64]
Kind = Literal["sync", "ready", "fail"]

_GRID = 4096


@dataclass(frozen=True)
class Operation:
    """How a fleet is run. Times in seconds."""

    length_s: float
    start: int
    "Replicas ready at the beginning."
    cold_start_s: float
    failures: FailureModel | None = None
    seed: int = 0


@dataclass(frozen=True)
class Operated:
    """What came of it."""

    seen: Simulated
    "By the requests, all of them counted."
    arrived_s: Seconds
    failures: int
    replica_s: float
    "Seconds of replicas that were paid for: starting, ready or draining."
    ready: tuple[tuple[float, int], ...]
    "(moment, replicas ready) at every sync of the autoscaler."


def arrivals_at(rate_at: Callable[[float], float], length_s: float, cv: float, random: np.random.Generator) -> Seconds:
    """Moments of arrival at a rate that changes: a process of unit rate, its clock running at the rate."""
    grid = np.linspace(0.0, length_s, _GRID)
    rates = np.array([rate_at(moment) for moment in grid])
    passed = np.concatenate([[0.0], np.cumsum((rates[1:] + rates[:-1]) / 2 * np.diff(grid))])
    expected = float(passed[-1])
    units = np.cumsum(unit_gaps(math.ceil(expected + 10 * max(cv, 1) * math.sqrt(expected) + 10), cv, random))
    return np.interp(units[units < expected], passed, grid)


def operate(
    model: FleetModel, mix: Mix, rate_at: Callable[[float], float], cv: float, scaler: Autoscaler, how: Operation
) -> Operated:
    """Run the fleet for `how.length_s`, and answer what has come by then.

    The autoscaler sees what a real one would: the requests in flight, every `sync_s`. What it adds takes a cold start;
    what it removes takes no more requests and answers those it has. A failed replica's requests are sent anew, and
    another takes its place after the repair time.
    """
    return _Run(model, mix, rate_at, cv, scaler, how).run()


class _Run:
    def __init__(
        self,
        model: FleetModel,
        mix: Mix,
        rate_at: Callable[[float], float],
        cv: float,
        scaler: Autoscaler,
        how: Operation,
    ) -> None:
        random = np.random.default_rng((how.seed, 2))
        self.model, self.scaler, self.how = model, scaler, how
        self.arrived_s = arrivals_at(rate_at, how.length_s, cv, random)
        count = len(self.arrived_s)
        prompts, outputs = mix.draw(count, random)
        each = Steady(model.curve, mix).decoding(rate_at(0.0) / max(how.start, 1))
        left = residual(mix, round(each * how.start), random)
        self.book = Book(
            [*self.arrived_s.tolist(), *([-1.0] * len(left))],
            [*prompts.tolist(), *([1] * len(left))],
            [*outputs.tolist(), *left],
            model.curve.seats,
        )
        self.fleet = Fleet(model, self.book, how.seed)
        self.lives = Random(how.seed)
        self.events: list[tuple[float, int, Kind, int]] = []
        self.pushed = 0
        self.starting: dict[int, float] = {}
        "By event, the moment at which a replica will be ready."
        self.failed = 0
        self.replica_s = 0.0
        self.counted_until = 0.0
        self.ready: list[tuple[float, int]] = []
        seated = [(count + at, tokens) for at, tokens in enumerate(left)]
        for index in range(how.start):
            self._join(0.0, tuple(seated[index :: how.start][: model.curve.seats]))
        self._push(0.0, "sync", 0)

    def run(self) -> Operated:
        with no_collection():
            for request, now in enumerate(self.arrived_s.tolist()):
                while self.events and self.events[0][0] <= now:
                    self._happen(*heappop(self.events))
                self.fleet.arrive(request, now)
            while self.events and self.events[0][0] <= self.how.length_s:
                self._happen(*heappop(self.events))
            if not self.fleet.ready:  # what was held is answered by whoever is ready first
                self._join(min(self.starting.values(), default=self.how.length_s))
            self.fleet.finish()
        self._count(self.how.length_s)
        requests = len(self.arrived_s)
        mean = self.replica_s / self.how.length_s
        pace = Pace(self.model.replica)
        seen = observed(self.book, requests, slice(0, requests), pace, self.how.length_s, mean, self.fleet.retried)
        return Operated(seen, self.arrived_s, self.failed, self.replica_s, tuple(self.ready))

    def _happen(self, now: float, event: int, kind: Kind, index: int) -> None:
        self._count(now)
        if kind == "sync":
            self._sync(now)
        elif kind == "ready":
            if self.starting.pop(event, None) is not None:
                self._join(now)
        elif index in self.fleet.stations:
            self.failed += 1
            draining = self.fleet.stations[index].draining
            self.fleet.fail(index, now)
            if not draining and self.how.failures is not None:
                self._start(now + self.how.failures.repair_s)

    def _sync(self, now: float) -> None:
        in_flight = self.fleet.outstanding(now)
        self.ready.append((now, self.fleet.ready))
        current = self.fleet.ready + len(self.starting)
        change = self.scaler.desired(now, current, in_flight) - current
        for _ in range(change):
            self._start(now + self.how.cold_start_s)
        for _ in range(-change):
            if self.starting:  # those that aren't ready yet go first
                del self.starting[max(self.starting, key=lambda event: self.starting[event])]
            else:
                self.fleet.drain(max(i for i, station in self.fleet.stations.items() if not station.draining))
        self._push(now + self.scaler.sync_s, "sync", 0)

    def _join(self, now: float, seated: tuple[tuple[int, int], ...] = ()) -> None:
        station = self.fleet.add(now, seated=seated)
        if self.how.failures is not None:
            self._push(now + self.lives.expovariate(1 / self.how.failures.mttf_s), "fail", station.index)

    def _start(self, ready_s: float) -> None:
        self.starting[self._push(ready_s, "ready", 0)] = ready_s

    def _push(self, at: float, kind: Kind, index: int) -> int:
        self.pushed += 1
        heappush(self.events, (at, self.pushed, kind, index))
        return self.pushed

    def _count(self, now: float) -> None:
        """Draining replicas are paid for until the next sync finds them empty."""
        self.replica_s += (now - self.counted_until) * (len(self.fleet.stations) + len(self.starting))
        self.counted_until = now
