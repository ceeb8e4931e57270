"""Capacity: what a measured service curve means for a fleet.

`Question` asks whether so many replicas keep a promise at a rate, by simulating every request (`simulate`);
`least_replicas` searches the fewest; `make_plan` does so over a day, adds spares for failures, prices and an
autoscaling policy. Nothing here makes traffic or touches a cluster: manifests are text.
"""

from tools.capacity.autoscale import METRIC_NAMES, MetricNames, Policy, Workplace, derive_policy
from tools.capacity.balancer import BALANCERS, BalancerName
from tools.capacity.curve_file import Measured, read_replica
from tools.capacity.degraded import Degraded, degraded_mode
from tools.capacity.failures import FailureModel, Headroom
from tools.capacity.fleet import Fleet, FleetModel
from tools.capacity.least import least_replicas, most_rate
from tools.capacity.mix import Mix
from tools.capacity.plan import CapacityPlan, Choice, Interval, Terms
from tools.capacity.planner import make_plan
from tools.capacity.prices import Cost, Hardware, Prices, read_prices
from tools.capacity.question import Effort, Finding, Question
from tools.capacity.simulate import Demand, Simulated, play, simulate
from tools.capacity.traffic import Traffic
from tools.capacity.traffic_file import read_traffic

__all__ = [
    "BALANCERS",
    "METRIC_NAMES",
    "BalancerName",
    "CapacityPlan",
    "Choice",
    "Cost",
    "Degraded",
    "Demand",
    "Effort",
    "FailureModel",
    "Finding",
    "Fleet",
    "FleetModel",
    "Hardware",
    "Headroom",
    "Interval",
    "Measured",
    "MetricNames",
    "Mix",
    "Policy",
    "Prices",
    "Question",
    "Simulated",
    "Terms",
    "Traffic",
    "Workplace",
    "degraded_mode",
    "derive_policy",
    "least_replicas",
    "make_plan",
    "most_rate",
    "play",
    "read_prices",
    "read_replica",
    "read_traffic",
    "simulate",
]
