"""The soak: a burst, and then more than the promised load, as one workload."""

from __future__ import annotations

from typing import Any

from tools.measure.arrivals import ArrivalSpec, Closed, Replay, mean_rate_rps
from tools.measure.workload import WorkloadSpec

__all__ = ["BURST_REQUESTS", "SUSTAINED_LOAD", "soaking"]

BURST_REQUESTS = 32
"""Most conversations of the burst. The calibration sends the baseline a burst of as many, so it is known to bear it."""

SUSTAINED_LOAD = 1.25
"""What follows the burst, as a share of the deployment's own load; as many requests as a trial has."""

_MOST_SEATS = 100_000


def soaking(spec: WorkloadSpec) -> WorkloadSpec:
    """The mix of `spec`, first all at once, then steadily at SUSTAINED_LOAD of its rate.

    A closed loop begins with a burst of its own: it gets more seats. Of a burst, as many stay in the system as it has.
    Patience grows with the number of requests, so a server that serves the deployment's load in time has no reason to
    lose one of these.
    """
    burst = min(spec.requests, BURST_REQUESTS)
    total = spec.requests + burst
    return _changed(
        spec,
        arrivals=_arrivals(spec.arrivals, burst, total),
        requests=total,
        timeout_s=spec.timeout_s * total / spec.requests,
    )


def _arrivals(arrivals: ArrivalSpec, burst: int, total: int) -> ArrivalSpec:
    if isinstance(arrivals, Closed):
        more = max(arrivals.concurrency + 1, round(arrivals.concurrency * SUSTAINED_LOAD))
        return Closed(kind="closed", concurrency=min(more, _MOST_SEATS))
    rate_rps = mean_rate_rps(arrivals)
    if rate_rps is None:
        return Closed(kind="closed", concurrency=min(total - burst, _MOST_SEATS))
    steady = (number / (rate_rps * SUSTAINED_LOAD) for number in range(1, total - burst + 1))
    return Replay(kind="replay", times_s=(*(0.0,) * burst, *steady))


def _changed(spec: WorkloadSpec, **changes: Any) -> WorkloadSpec:
    """`spec` with `changes`, validated anew."""
    return WorkloadSpec.model_validate({name: getattr(spec, name) for name in spec.model_fields_set} | changes)
