"""The soak: a burst, and then more than the promised load, as one workload."""

from __future__ import annotations

import math
from typing import Any

from tools.measure.arrivals import ArrivalSpec, Closed, Replay, mean_rate_rps
from tools.measure.workload import WorkloadSpec

__all__ = ["BURST_REQUESTS", "MOST_SUSTAINED_S", "SUSTAINED_LOAD", "soaking"]

BURST_REQUESTS = 32
"""Most conversations of the burst. The calibration sends the baseline a burst of as many, so it is known to bear it."""

SUSTAINED_LOAD = 1.25
"""What follows the burst, as a share of the deployment's own load; at most as many requests as a trial has."""

MOST_SUSTAINED_S = 120.0
"""Longest that single requests arrive above the promised rate: what can't keep up falls behind for as long."""

_MOST_SEATS = 100_000


def soaking(spec: WorkloadSpec) -> WorkloadSpec:
    """The mix of `spec`, first all at once, then steadily at SUSTAINED_LOAD of its rate, at most MOST_SUSTAINED_S long.

    A closed loop begins with a burst of its own: it gets more seats. Of a burst, as many stay in the system as it has.

    Patience grows with the worst backlog of a server that just keeps up with the deployment's own load, so that none
    which serves that in time has a reason to lose a request here. At rate r such a server completes r a second. The
    burst of B waits; of the n that follow at 1.25 r, n (1 - 1 / 1.25) are still there when the last one comes; it waits
    (B + n / 5) / r longer than it would alone: `requests` counts turns and r counts conversations, so where these have
    more than one it is less. In a closed loop waiting grows with the seats.
    """
    burst = min(spec.requests, BURST_REQUESTS)
    rate_rps = mean_rate_rps(spec.arrivals)
    if rate_rps is not None:
        most = max(1, math.floor(MOST_SUSTAINED_S * rate_rps * SUSTAINED_LOAD))
        steady = spec.requests if spec.has_turns else min(spec.requests, most)
        moments = (number / (rate_rps * SUSTAINED_LOAD) for number in range(1, steady + 1))
        backlog_s = (burst + steady * (1 - 1 / SUSTAINED_LOAD)) / rate_rps
        arrivals: ArrivalSpec = Replay(kind="replay", times_s=(*(0.0,) * burst, *moments))
        return _changed(spec, arrivals=arrivals, requests=burst + steady, timeout_s=spec.timeout_s + backlog_s)
    seats, more = spec.requests, spec.requests
    if isinstance(spec.arrivals, Closed):
        seats = spec.arrivals.concurrency
        more = max(seats + 1, round(seats * SUSTAINED_LOAD))
    patience = max(more / seats, 1 + burst / spec.requests)
    closed = Closed(kind="closed", concurrency=min(more, _MOST_SEATS))
    return _changed(spec, arrivals=closed, requests=spec.requests + burst, timeout_s=spec.timeout_s * patience)


def _changed(spec: WorkloadSpec, **changes: Any) -> WorkloadSpec:
    """`spec` with `changes`, validated anew."""
    return WorkloadSpec.model_validate({name: getattr(spec, name) for name in spec.model_fields_set} | changes)
