"""Fleet: replicas behind a balancer. Requests come, replicas join, fail and leave; nothing is ever lost on the way."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from tools.capacity.balancer import BalancerName, balancer
from tools.capacity.book import Book
from tools.capacity.station import Pace, Station
from tools.service.curve import ServiceCurve
from tools.service.replica import Replica

__all__ = ["Fleet", "FleetModel"]


@dataclass(frozen=True)
class FleetModel:
    """What all replicas of a fleet are like, and how requests are spread over them."""

    replica: Replica
    balancer: BalancerName = "least-outstanding"
    corrections: Mapping[str, float] = field(default_factory=dict)
    "What a simulated metric is multiplied by: measured over simulated, where the replica was calibrated."

    def corrected(self, name: str, value_ms: float) -> float:
        """A simulated metric, by its name in `Slo.bounds`, as a measurement would show it."""
        return value_ms * self.corrections.get(name, 1.0)

    @property
    def curve(self) -> ServiceCurve:
        return self.replica.curve


class Fleet:
    """The replicas of one model. Time only goes on: calls must come in the order of `now`."""

    def __init__(self, model: FleetModel, book: Book, seed: int) -> None:
        self.book = book
        self.stations: dict[int, Station] = {}
        "Ready or draining, by number."
        self.held: deque[int] = deque()
        "Requests that came while no replica was ready."
        self.retried = 0
        "Requests sent anew because their replica failed."
        self._pace = Pace(model.replica)
        self._balancer = balancer(model.balancer, Random(seed))
        self._made = 0

    @property
    def ready(self) -> int:
        """Replicas that take requests."""
        return len(self._balancer)

    def add(self, now: float, *, seated: Iterable[tuple[int, int]] = ()) -> Station:
        """A replica that is ready now; `seated` are (request, tokens left) that it has been busy with all along."""
        station = Station(self._made, self.book, self._pace, now)
        for request, left in seated:
            station.resume(request, left)
        self._made += 1
        self.stations[station.index] = station
        self._balancer.join(station)
        while self.held:
            self.arrive(self.held.popleft(), now)
        return station

    def arrive(self, request: int, now: float) -> None:
        """A request comes, for the first time or anew."""
        if not len(self._balancer):
            self.held.append(request)
            return
        station = self._balancer.choose(now)
        self.book.entered[request] = now
        station.enter(request)
        self._balancer.entered(station, request, now)

    def fail(self, index: int, now: float) -> None:
        """The replica is gone at once; a gateway sends what it held to others, from the start."""
        station = self.stations.pop(index)
        station.advance(now)
        if not station.draining:
            self._balancer.leave(station)
        lost = sorted(station.abandon())
        for request in lost:
            if self.book.arrived[request] >= 0:  # who was there before the simulation isn't sent anew
                self.retried += 1
                self.arrive(request, now)

    def drain(self, index: int) -> None:
        """The replica takes no more requests and is gone when it has answered those it has."""
        station = self.stations[index]
        station.draining = True
        self._balancer.leave(station)

    def outstanding(self, now: float) -> int:
        """Requests that wait or are served, everywhere; replicas that have drained are gone afterwards."""
        for station in self.stations.values():
            station.advance(now)
        for index in [i for i, station in self.stations.items() if station.draining and not station.outstanding]:
            del self.stations[index]
        return sum(station.outstanding for station in self.stations.values()) + len(self.held)

    def finish(self) -> None:
        """Let everything that is there be answered."""
        for station in self.stations.values():
            station.advance(math.inf)
