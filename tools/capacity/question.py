"""Question: does a fleet of so many replicas keep the promise at this rate? Answered by simulation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tools.capacity.fleet import FleetModel
from tools.capacity.mix import Mix
from tools.capacity.simulate import Demand, Simulated, simulate
from tools.capacity.steady import Steady, floors_ms
from tools.measure.slo import Slo

__all__ = ["Effort", "Finding", "Question"]

_CLEAR = 0.2
"""A metric this share away from its bound needs no second simulation."""
_HOPELESS = 1.5
"""A metric so many times its bound in a short simulation is above it in a long one too: queues only get longer."""
_SIGMAS = 3.0
"""So many standard errors away from the bound, a mean of several simulations needs no further one."""


@dataclass(frozen=True)
class Effort:
    """How much simulation an answer is worth."""

    requests: int = 12_000
    "Per simulation, at least."
    most_requests: int = 1_000_000
    "Per fleet, as far as one simulation or more allow."
    turnovers: float = 3.0
    "Per simulation, the requests in the fleet at one time are replaced at least this often."
    relaxations: float = 10.0
    "Per simulation, a queue as busy as the fleet forgets its state at least this often."
    simulations: int = 6
    "At most, where a metric stays near its bound; each with a seed of its own."
    seed: int = 0


@dataclass(frozen=True)
class Finding:
    """What so many replicas do at a rate."""

    replicas: int
    rate_rps: float
    holds: bool
    values_ms: Mapping[str, float]
    "By the names of `Slo.bounds`: means over the simulations. Empty where the queue never ends."
    in_flight: float
    "Requests per replica, waiting or served."
    utilisation: float
    "Rate / the ceiling of all replicas together."
    simulations: int


@dataclass
class Question:
    """One kind of replica, one mix, one promise. Findings are kept, so that no fleet is simulated twice."""

    model: FleetModel
    mix: Mix
    slo: Slo
    cv: float = 1.0
    effort: Effort = field(default_factory=Effort)
    spent: int = 0
    "Requests simulated so far."
    large: tuple[float, Finding] | None = None
    "Of large fleets: requests per second that each replica bears, and the fleet that showed it."
    _kept: dict[tuple[int, float, bool], Finding] = field(default_factory=dict)

    @cached_property
    def steady(self) -> Steady:
        return Steady(self.model.curve, self.mix)

    @cached_property
    def most_rps(self) -> float:
        """The ceiling of one replica, in requests per second."""
        return self.steady.most_rps()

    def unreachable(self) -> str | None:
        """Why no number of replicas can keep the promise; None where some number can."""
        floors = floors_ms(self.model.replica, self.mix, self.slo)
        for name, bound in self.slo.bounds().items():
            floor = self.model.corrected(name, floors[name])
            if floor > bound:
                return f"{name} is {floor:.4g} ms for a request that has a replica to itself; promised {bound:g}"
        return None

    def least_stable(self, rate_rps: float) -> int:
        """The fewest replicas that get the work done at all: with fewer, the queue never ends."""
        return math.floor(rate_rps / self.most_rps) + 1

    def ask(self, replicas: int, rate_rps: float, *, thorough: bool = False) -> Finding:
        """Simulate until it is clear whether the promise holds, or `effort.simulations` times.

        It holds if every metric's mean lies one standard error or more within its bound: where simulation can't tell
        two fleets apart, the larger is taken.

        Args:
            thorough: spend as much on a fleet that is far from holding, so that its values too are those of a long run.
        """
        key = (replicas, rate_rps, thorough)
        if key not in self._kept:
            self._kept[key] = self._simulated(replicas, rate_rps, thorough)
        return self._kept[key]

    def _simulated(self, replicas: int, rate_rps: float, thorough: bool) -> Finding:
        bounds = self.slo.bounds()
        utilisation = rate_rps / (replicas * self.most_rps)
        if replicas < self.least_stable(rate_rps):
            return Finding(replicas, rate_rps, False, {}, math.inf, utilisation, 0)
        demand = Demand(self.mix, rate_rps, self.cv)
        requests = self._requests(replicas, rate_rps)
        if requests > 2 * self.effort.requests and not thorough:
            glance = self._simulate(replicas, demand, self.effort.requests, 0)
            if max(self._value_ms(glance, name) / bound for name, bound in bounds.items()) > _HOPELESS:
                values = {name: self._value_ms(glance, name) for name in bounds}
                return Finding(replicas, rate_rps, False, values, glance.busy, utilisation, 1)
        most = max(min(self.effort.simulations, self.effort.most_requests // requests), 1)
        runs: list[Simulated] = []
        rows: list[list[float]] = []
        holds = False
        while len(runs) < most:
            runs.append(self._simulate(replicas, demand, requests, len(runs)))
            rows.append([self._value_ms(runs[-1], name) / bound for name, bound in bounds.items()])
            ratios = np.array(rows)
            mean = ratios.mean(axis=0)
            worst = float(mean.max())
            error = ratios.std(axis=0, ddof=1) / math.sqrt(len(rows)) if len(rows) > 1 else np.zeros(len(bounds))
            holds = bool((mean + error <= 1).all())
            if abs(worst - 1) > _CLEAR or (len(rows) > 1 and abs(worst - 1) > _SIGMAS * error[int(mean.argmax())]):
                break
        return Finding(
            replicas=replicas,
            rate_rps=rate_rps,
            holds=holds,
            values_ms={name: float(np.mean([self._value_ms(run, name) for run in runs])) for name in bounds},
            in_flight=float(np.mean([run.busy for run in runs])),
            utilisation=utilisation,
            simulations=len(runs),
        )

    def _simulate(self, replicas: int, demand: Demand, requests: int, number: int) -> Simulated:
        self.spent += requests
        return simulate(self.model, replicas, demand, requests=requests, seed=self.effort.seed * 1000 + number)

    def _value_ms(self, run: Simulated, name: str) -> float:
        return self.model.corrected(name, run.value_ms(name))

    def _requests(self, replicas: int, rate_rps: float) -> int:
        """Enough to see the steady state, not its beginning.

        A queue's relaxation time, in arrivals, is about 1 / (1 - sqrt(load))² (exact for M/M/1; Morse, 1955): a fleet
        near its ceiling must be watched for long: its bad hours are rare and make its tail. Burstiness lengthens it as
        it lengthens queues, by (1 + cv²) / 2 (Allen and Cunneen).
        """
        effort = self.effort
        in_flight = replicas * self.steady.decoding(rate_rps / replicas)
        load = rate_rps / (replicas * self.most_rps)
        relaxation = (1 + self.cv**2) / 2 / (1 - math.sqrt(load)) ** 2
        wanted = max(effort.requests, effort.turnovers * in_flight, effort.relaxations * relaxation)
        return math.ceil(min(wanted, effort.most_requests))
