"""Measuring: a workload made concrete, the load that drives it, and what was seen, raw and summarised.

Only data and pure functions are re-exported. What makes traffic is imported by its own name (`tools.measure.client`,
`tools.measure.calibrate`): the harness does, who proposes and who decides never.
"""

from tools.measure.arrivals import ArrivalSpec, Burst, Closed, Constant, Poisson
from tools.measure.intervals import Interval, percentile, percentile_interval, wilson_interval
from tools.measure.lengths import LengthSpec
from tools.measure.load import ClientHealth, LoadResult
from tools.measure.measurement import Measurement
from tools.measure.records import Outcome, RequestRecord, TokenSource
from tools.measure.slo import Slo, SloMiss
from tools.measure.summary import METRICS, lower_is_better, summarise, summary_intervals
from tools.measure.workload import Request, Workload, WorkloadSpec, materialise, sharing_bound

__all__ = [
    "METRICS",
    "ArrivalSpec",
    "Burst",
    "ClientHealth",
    "Closed",
    "Constant",
    "Interval",
    "LengthSpec",
    "LoadResult",
    "Measurement",
    "Outcome",
    "Poisson",
    "Request",
    "RequestRecord",
    "Slo",
    "SloMiss",
    "TokenSource",
    "Workload",
    "WorkloadSpec",
    "lower_is_better",
    "materialise",
    "percentile",
    "percentile_interval",
    "sharing_bound",
    "summarise",
    "summary_intervals",
    "wilson_interval",
]
