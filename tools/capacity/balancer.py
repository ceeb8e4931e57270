"""Balancers: which replica a request goes to. Each sees the ready replicas and how many requests each has."""

from __future__ import annotations

import math
from collections import OrderedDict
from heapq import heappop, heappush
from random import Random
from typing import Literal, Protocol

from tools.capacity.station import Station

__all__ = ["BALANCERS", "Balancer", "BalancerName", "LeastOutstanding", "PowerOfTwo", "RoundRobin", "balancer"]

BalancerName = Literal["round-robin", "least-outstanding", "power-of-two"]
BALANCERS: tuple[BalancerName, ...] = ("round-robin", "least-outstanding", "power-of-two")


class Balancer(Protocol):
    """Owns the list of replicas that may be given requests."""

    def join(self, station: Station) -> None: ...

    def leave(self, station: Station) -> None: ...

    def choose(self, now: float) -> Station:
        """The station for a request that comes now, advanced to now. There must be one."""
        ...

    def entered(self, station: Station, request: int, now: float) -> None:
        """The request has entered the replica that was chosen."""
        ...

    def __len__(self) -> int: ...


class _Listed:
    """Members in a list whose places the replicas know, so that leaving costs the same however many there are."""

    def __init__(self) -> None:
        self._members: list[Station] = []

    def __len__(self) -> int:
        return len(self._members)

    def join(self, station: Station) -> None:
        station.position = len(self._members)
        self._members.append(station)

    def leave(self, station: Station) -> None:
        _remove(self._members, station)

    def entered(self, station: Station, request: int, now: float) -> None:
        """Nothing to remember: replicas are looked at when they are chosen."""


class RoundRobin(_Listed):
    """Each in turn, whatever it has."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._turn = random.randrange(1 << 16)

    def choose(self, now: float) -> Station:
        self._turn += 1
        chosen = self._members[self._turn % len(self._members)]
        chosen.advance(now)
        return chosen


class PowerOfTwo(_Listed):
    """The less busy of two different ones taken at random."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random.random

    def choose(self, now: float) -> Station:
        members, count = self._members, len(self._members)
        at = int(self._random() * count)
        one = members[at]
        one.advance(now)
        if count == 1:
            return one
        other = members[(at + 1 + int(self._random() * (count - 1))) % count]
        other.advance(now)
        return one if one.outstanding <= other.outstanding else other


class LeastOutstanding:
    """The one with the fewest requests; among equals the one that has had so many for longest, in turns as it were.

    So do nginx (least_conn) and HAProxy (leastconn), and it isn't all the same: of two replicas with a request each,
    the one that got its request last is still reading its prompt, and the next one would wait for that.

    Stations stand in a queue per number of requests, and completions are looked ahead to in a heap, so that a choice
    costs the logarithm of the number of replicas.
    """

    def __init__(self) -> None:
        self._levels: list[OrderedDict[int, Station]] = [OrderedDict()]
        "Per number of requests, who has so many, by index and in the order in which they came to have them."
        self._level: dict[int, int] = {}
        "By index, in which queue a replica stands."
        self._lowest = 0
        self._looked: dict[int, float] = {}
        "By index, the first moment at which a station is looked at again."
        self._heap: list[tuple[float, int, Station]] = []

    def __len__(self) -> int:
        return len(self._level)

    def join(self, station: Station) -> None:
        self._place(station, station.outstanding)
        self._raise_lowest()
        self._look(station, station.next_done_s())

    def leave(self, station: Station) -> None:
        del self._levels[self._level.pop(station.index)][station.index]
        self._looked.pop(station.index, None)
        self._raise_lowest()

    def choose(self, now: float) -> Station:
        heap, looked = self._heap, self._looked
        while heap and heap[0][0] <= now:
            at, index, station = heappop(heap)
            if looked.get(index) != at:
                continue  # an earlier look has been asked for since, or the replica has left
            station.advance(at)
            del looked[index]
            self._moved(station)
            self._look(station, station.next_done_s())
        chosen = next(iter(self._levels[self._lowest].values()))
        chosen.advance(now)
        return chosen

    def entered(self, station: Station, request: int, now: float) -> None:
        self._moved(station)
        self._look(station, station.earliest_s(request, now))

    def _look(self, station: Station, at: float) -> None:
        """See to it that the station is looked at no later than `at`."""
        if at < self._looked.get(station.index, math.inf):
            self._looked[station.index] = at
            heappush(self._heap, (at, station.index, station))

    def _moved(self, station: Station) -> None:
        level = self._level[station.index]
        if level != station.outstanding:
            del self._levels[level][station.index]
            self._place(station, station.outstanding)
            self._raise_lowest()

    def _place(self, station: Station, level: int) -> None:
        while len(self._levels) <= level:
            self._levels.append(OrderedDict())
        self._levels[level][station.index] = station
        self._level[station.index] = level
        self._lowest = min(self._lowest, level)

    def _raise_lowest(self) -> None:
        if not self._level:
            self._lowest = 0
            return
        while not self._levels[self._lowest]:
            self._lowest += 1


def balancer(name: BalancerName, random: Random) -> Balancer:
    """The balancer of that name, without replicas."""
    match name:
        case "round-robin":
            return RoundRobin(random)
        case "power-of-two":
            return PowerOfTwo(random)
        case "least-outstanding":
            return LeastOutstanding()


def _remove(members: list[Station], station: Station) -> None:
    last = members.pop()
    if last is not station:
        members[station.position] = last
        last.position = station.position
