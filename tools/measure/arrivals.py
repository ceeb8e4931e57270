"""ArrivalSpec: when requests are sent. Open loops have an absolute schedule; a closed loop waits for its answers."""

from __future__ import annotations

from random import Random
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["ArrivalSpec", "Burst", "Closed", "Constant", "Poisson", "schedule"]


class _Arrivals(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Poisson(_Arrivals):
    """Independent users: memoryless arrivals at `rate_rps` requests per second."""

    kind: Literal["poisson"]
    rate_rps: float = Field(gt=0, allow_inf_nan=False)


class Constant(_Arrivals):
    """A metronome: one request every 1 / `rate_rps` seconds."""

    kind: Literal["constant"]
    rate_rps: float = Field(gt=0, allow_inf_nan=False)


class Burst(_Arrivals):
    """All at once: what the server can do when it is never idle."""

    kind: Literal["burst"]


class Closed(_Arrivals):
    """`concurrency` users; each sends its next request when its last one is answered."""

    kind: Literal["closed"]
    concurrency: int = Field(ge=1, le=100_000)


ArrivalSpec = Annotated[Poisson | Constant | Burst | Closed, Field(discriminator="kind")]


def schedule(arrivals: ArrivalSpec, requests: int, seed: int) -> tuple[float, ...] | None:
    """When each request is due, in seconds from the start, ascending; None for a closed loop, which has no schedule.

    A Poisson process is drawn *given its count*: n arrivals within n / rate seconds are n sorted uniform draws
    (Ross, Stochastic Processes, theorem 2.3.1). So every seed offers exactly the stated rate, and the spread between
    trials is the server's and not that of the arrivals' sum.
    """
    if isinstance(arrivals, Closed):
        return None
    if isinstance(arrivals, Burst):
        return (0.0,) * requests
    if isinstance(arrivals, Constant):
        return tuple(index / arrivals.rate_rps for index in range(requests))
    random = Random(f"arrivals/{seed}")
    return tuple(sorted(random.random() * requests / arrivals.rate_rps for _ in range(requests)))
