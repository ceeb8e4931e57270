"""ArrivalSpec: when conversations start. Open loops have an absolute schedule; a closed loop waits for its answers.

Rates count conversation starts per second; where each conversation has one turn, those are requests per second. Every
open schedule is drawn *given its count*, so that each seed offers exactly the stated rate and the spread between trials
is the server's and not that of the arrivals' sum.
"""

from __future__ import annotations

import math
from itertools import accumulate, pairwise
from random import Random
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tools.measure.copula import stratified, stratified_series

__all__ = [
    "ArrivalSpec",
    "Burst",
    "Closed",
    "Constant",
    "Gamma",
    "Poisson",
    "Ramp",
    "Renewal",
    "Replay",
    "Season",
    "mean_rate_rps",
    "schedule",
]

Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Arrivals(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Poisson(_Arrivals):
    """Independent users: memoryless arrivals."""

    kind: Literal["poisson"]
    rate_rps: Rate


class Constant(_Arrivals):
    """A metronome: one start every 1 / `rate_rps` seconds."""

    kind: Literal["constant"]
    rate_rps: Rate


class Gamma(_Arrivals):
    """Gaps from a gamma distribution: `cv` is their coefficient of variation; above 1 bursty, 1 Poisson-like, below 1
    regular. (vLLM's `--burstiness` is 1 / cv².)"""

    kind: Literal["gamma"]
    rate_rps: Rate
    cv: float = Field(gt=0, le=20, allow_inf_nan=False)


class Ramp(_Arrivals):
    """A Poisson process whose rate goes linearly from `from_rps` to `to_rps`."""

    kind: Literal["ramp"]
    from_rps: float = Field(ge=0, allow_inf_nan=False)
    to_rps: float = Field(ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _moves(self) -> Ramp:
        if self.from_rps + self.to_rps <= 0:
            raise ValueError("expected a rate above 0 at one end, found 0 at both")
        return self


class Season(_Arrivals):
    """A rate that repeats itself: `weights` are relative rates in equal parts of `period_s` (a day, say)."""

    period_s: float = Field(gt=0, allow_inf_nan=False)
    weights: tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...] = Field(min_length=1)

    @field_validator("weights")
    @classmethod
    def _some_traffic(cls, weights: tuple[float, ...]) -> tuple[float, ...]:
        if sum(weights) <= 0:
            raise ValueError("expected a weight above 0, found none")
        return weights

    def clock(self, busy_s: float) -> float:
        """When `busy_s` seconds of mean-rate traffic have gone by, in seconds from the start of a period."""
        part_s = self.period_s / len(self.weights)
        mean = sum(self.weights) / len(self.weights)
        periods, rest_s = divmod(busy_s, self.period_s)
        elapsed_s = periods * self.period_s
        for weight in self.weights:
            holds_s = part_s * weight / mean
            if holds_s > 0 and rest_s < holds_s:
                return elapsed_s + part_s * rest_s / holds_s
            rest_s -= holds_s
            elapsed_s += part_s
        return elapsed_s


class Renewal(_Arrivals):
    """Gaps as they were seen in a log, without the log: their quantiles, their persistence, their season."""

    kind: Literal["renewal"]
    rate_rps: Rate
    gaps: tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...] = Field(min_length=2)
    "Quantiles of the gaps between starts divided by their mean, ascending, at equidistant probabilities from 0 to 1."
    persistence: float = Field(default=0.0, ge=-0.99, le=0.99)
    "Rank correlation of a gap with the next: above 0, short gaps come in clusters."
    season: Season | None = None

    @field_validator("gaps")
    @classmethod
    def _ascending(cls, gaps: tuple[float, ...]) -> tuple[float, ...]:
        if any(later < earlier for earlier, later in pairwise(gaps)):
            raise ValueError("expected ascending quantiles")
        if gaps[-1] <= 0:
            raise ValueError("expected a gap above 0, found none")
        return gaps


class Replay(_Arrivals):
    """The very moments of a trace, `speed` times as fast."""

    kind: Literal["replay"]
    times_s: tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...] = Field(min_length=1)
    speed: float = Field(default=1.0, gt=0, allow_inf_nan=False)


class Burst(_Arrivals):
    """All at once: what the server can do when it is never idle."""

    kind: Literal["burst"]


class Closed(_Arrivals):
    """`concurrency` users; each starts its next conversation when its last one is answered."""

    kind: Literal["closed"]
    concurrency: int = Field(ge=1, le=100_000)


ArrivalSpec = Annotated[
    Poisson | Constant | Gamma | Ramp | Renewal | Replay | Burst | Closed, Field(discriminator="kind")
]


def schedule(arrivals: ArrivalSpec, starts: int, seed: int) -> tuple[float, ...] | None:
    """When each of `starts` conversations is due, in seconds from the start, ascending; None for a closed loop.

    A Poisson process given its count is `starts` sorted uniform draws within starts / rate seconds (Ross, Stochastic
    Processes, theorem 2.3.1); a ramp is the same under its own cumulative rate.

    Raises:
        ValueError: a replay of more starts than it has moments.
    """
    random = Random(f"arrivals/{seed}")
    match arrivals:
        case Closed():
            return None
        case Burst():
            return (0.0,) * starts
        case Constant(rate_rps=rate):
            return tuple(index / rate for index in range(starts))
        case Poisson(rate_rps=rate):
            return tuple(sorted(random.random() * starts / rate for _ in range(starts)))
        case Ramp():
            return tuple(sorted(_ramp_s(arrivals, random.random(), starts) for _ in range(starts)))
        case Gamma():
            return _from_gaps([_gamma_gap(arrivals.cv, u) for u in stratified(random, starts)], arrivals.rate_rps)
        case Renewal():
            return _renewal(arrivals, starts, random)
        case Replay():
            if starts > len(arrivals.times_s):
                raise ValueError(f"expected at most {len(arrivals.times_s)} starts of this replay, found {starts}")
            first = min(arrivals.times_s)
            return tuple(sorted((time - first) / arrivals.speed for time in arrivals.times_s))[:starts]


def mean_rate_rps(arrivals: ArrivalSpec) -> float | None:
    """Conversation starts per second over the whole load; None for a burst and a closed loop, which have no rate."""
    match arrivals:
        case Poisson() | Constant() | Gamma() | Renewal():
            return arrivals.rate_rps
        case Ramp():
            return (arrivals.from_rps + arrivals.to_rps) / 2
        case Replay():
            length_s = max(arrivals.times_s) - min(arrivals.times_s)
            return len(arrivals.times_s) * arrivals.speed / length_s if length_s > 0 else None
        case Burst() | Closed():
            return None


def _from_gaps(gaps: list[float], rate_rps: float) -> tuple[float, ...]:
    """Moments whose gaps are proportional to `gaps`, the first at 0, at exactly the stated rate."""
    total = sum(gaps)
    scale = len(gaps) / rate_rps / total if total > 0 else 0.0
    return tuple(moment * scale for moment in accumulate([0.0, *gaps[:-1]]))


def _ramp_s(ramp: Ramp, share: float, starts: int) -> float:
    """When a share of all starts has come: the cumulative rate (a parabola) inverted."""
    length_s = 2 * starts / (ramp.from_rps + ramp.to_rps)
    slope = (ramp.to_rps - ramp.from_rps) / length_s
    if abs(slope) * length_s < 1e-9 * (ramp.from_rps + ramp.to_rps):
        return share * length_s
    discriminant = ramp.from_rps**2 + 2 * slope * share * starts
    return (math.sqrt(max(discriminant, 0.0)) - ramp.from_rps) / slope


def _gamma_gap(cv: float, u: float) -> float:
    from scipy.special import gammaincinv

    shape = 1 / cv**2
    return float(gammaincinv(shape, u)) / shape


def _renewal(arrivals: Renewal, starts: int, random: Random) -> tuple[float, ...]:
    gaps = [_quantile(arrivals.gaps, u) for u in stratified_series(random, starts, arrivals.persistence)]
    busy_s = _from_gaps(gaps, arrivals.rate_rps)
    return busy_s if arrivals.season is None else tuple(arrivals.season.clock(moment) for moment in busy_s)


def _quantile(quantiles: tuple[float, ...], u: float) -> float:
    place = u * (len(quantiles) - 1)
    below = min(int(place), len(quantiles) - 2)
    return quantiles[below] + (place - below) * (quantiles[below + 1] - quantiles[below])
