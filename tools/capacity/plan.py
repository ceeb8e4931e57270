"""CapacityPlan: replicas over the day, spare ones for failures, degraded mode, cost and autoscaling, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tools.capacity.autoscale import Policy
from tools.capacity.day import DayRun
from tools.capacity.degraded import Degraded
from tools.capacity.failures import FailureModel, Headroom
from tools.capacity.fleet import FleetModel
from tools.capacity.mix import Mix
from tools.capacity.prices import Cost, Hardware
from tools.capacity.question import Effort
from tools.capacity.rehearse import Rehearsal
from tools.capacity.traffic import Traffic
from tools.measure.slo import Slo

__all__ = ["CapacityPlan", "Choice", "Interval", "Terms"]


@dataclass(frozen=True)
class Choice:
    """A kind of replica that could be bought."""

    name: str
    model: FleetModel
    mix: Mix
    price: Hardware | None = None


@dataclass(frozen=True)
class Terms:
    """What the plan must keep to."""

    slo: Slo
    cold_start_s: float = 90.0
    "From the decision to start a replica until it takes requests."
    mttf_s: float | None = None
    "None: replicas don't fail."
    repair_s: float = 0.0
    "Noticing a failure and finding a place for the new replica; its cold start comes on top."
    zones: int = 1
    availability: float = 0.999
    scrape_s: float = 15.0
    degraded: int = 3
    "Up to so many missing replicas are looked at."
    effort: Effort = field(default_factory=Effort)

    def failures(self) -> FailureModel | None:
        if self.mttf_s is None:
            return None
        return FailureModel(self.mttf_s, self.repair_s + self.cold_start_s, self.zones, self.availability)


@dataclass(frozen=True)
class Interval:
    """One part of the day."""

    start_s: float
    "Time of day (UTC), or the offset from the traffic's beginning where its clock isn't known."
    rate_rps: float
    mean_rps: float
    needed: int
    provisioned: int
    "With the spare ones for failures."
    utilisation: float
    "Of the needed ones."
    values_ms: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class CapacityPlan:
    """The answer. `to_json` is what `--json` prints and what the page is drawn from."""

    hardware: str
    "The choice that the rest is about: the cheapest of those that keep the promise."
    balancer: str
    slo: dict[str, float]
    traffic: Traffic
    mix: Mix
    intervals: tuple[Interval, ...]
    headroom: Headroom | None
    "At the peak; None where replicas don't fail."
    degraded: tuple[Degraded, ...]
    costs: tuple[Cost, ...]
    currency: str | None
    policy: Policy
    days: tuple[DayRun, ...]
    rehearsals: tuple[Rehearsal, ...]
    cold_start_s: float
    simulated_requests: int
    assumptions: tuple[str, ...]

    @property
    def peak(self) -> Interval:
        return max(self.intervals, key=lambda interval: interval.rate_rps)

    @property
    def most_provisioned(self) -> int:
        return max(interval.provisioned for interval in self.intervals)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "capacity-plan",
            "version": 1,
            "hardware": self.hardware,
            "balancer": self.balancer,
            "slo": self.slo,
            "traffic": self.traffic.to_json(),
            "mix": {
                "source": self.mix.source,
                "mean_prompt_tokens": self.mix.mean_prompt,
                "mean_output_tokens": self.mix.mean_output,
            },
            "peak_rps": self.peak.rate_rps,
            "peak_replicas": self.peak.needed,
            "provisioned_replicas": self.most_provisioned,
            "intervals": [interval.to_json() for interval in self.intervals],
            "headroom": self.headroom.to_json() if self.headroom else None,
            "degraded": [row.to_json() for row in self.degraded],
            "currency": self.currency,
            "costs": [cost.to_json() for cost in self.costs],
            "autoscaling": self.policy.to_json(),
            "days": [day.to_json() for day in self.days],
            "rehearsals": [rehearsal.to_json() for rehearsal in self.rehearsals],
            "cold_start_s": self.cold_start_s,
            "simulated_requests": self.simulated_requests,
            "assumptions": list(self.assumptions),
        }
