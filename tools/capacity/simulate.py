"""Simulate: a fleet under a steady stream of requests, as samples of every latency that a promise can be about."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.capacity.book import Book
from tools.capacity.fleet import Fleet, FleetModel
from tools.capacity.mix import Mix, Tokens
from tools.capacity.station import Pace
from tools.capacity.steady import Steady

__all__ = ["Demand", "Simulated", "no_collection", "observed", "play", "residual", "simulate", "unit_gaps"]

Samples = NDArray[np.float64]

_WARM_SHARE = 0.15
"""Of the requests, whose latencies aren't counted: the fleet starts near its steady state, not in it."""
_LAST_SHARE = 0.03
"""Of the requests, the last ones: nobody comes after them, which is kind to them."""


@dataclass(frozen=True)
class Demand:
    """A stationary stream of requests: gamma gaps, so that `cv` 1 is Poisson and above it bursty."""

    mix: Mix
    rate_rps: float
    cv: float = 1.0


@dataclass(frozen=True)
class Simulated:
    """What the counted requests saw. Arrays in seconds, in order of arrival."""

    ttft_s: Samples
    e2el_s: Samples
    tpot_s: Samples
    "Of those with at least two tokens."
    gap_s: Samples
    "Distinct gaps between tokens, ascending, ..."
    gap_weights: Samples
    "... and how many tokens came after such a gap."
    arrived: int
    done: int
    retried: int
    window_s: float
    busy: float
    "Mean requests per replica in the system in the window, by Little's law."

    def value_ms(self, name: str) -> float:
        """A metric as `Slo.bounds` names it, e.g. `p95_ttft_ms`; in ms. 0 where there is no such sample at all."""
        statistic, metric = name.split("_", 1)
        if metric == "itl_ms":
            return self._gap_s(statistic) * 1000
        samples = {"ttft_ms": self.ttft_s, "e2el_ms": self.e2el_s, "tpot_ms": self.tpot_s}[metric]
        if not len(samples):
            return 0.0
        value = samples.mean() if statistic == "mean" else np.percentile(samples, float(statistic[1:]))
        return float(value) * 1000

    def _gap_s(self, statistic: str) -> float:
        total = self.gap_weights.sum()
        if not total:
            return 0.0
        if statistic == "mean":
            return float((self.gap_s * self.gap_weights).sum() / total)
        at = np.searchsorted(np.cumsum(self.gap_weights), float(statistic[1:]) / 100 * total)
        return float(self.gap_s[min(int(at), len(self.gap_s) - 1)])


def unit_gaps(count: int, cv: float, random: np.random.Generator) -> Samples:
    """`count` gaps between arrivals of mean 1 and coefficient of variation `cv`; a metronome for 0."""
    if cv <= 0:
        return np.ones(count)
    shape = 1 / cv**2
    return random.gamma(shape, 1 / shape, count)


def simulate(model: FleetModel, replicas: int, demand: Demand, *, requests: int, seed: int) -> Simulated:
    """`requests` requests at a steady rate on `replicas` replicas that never fail.

    Equal seeds draw equal lengths and gaps whatever the rate and the number of replicas (common random numbers), so
    that two fleets are compared on the same traffic. The fleet starts with about as many sequences as it will have, in
    the middle of their answers; what is left of that choice decays in the requests that aren't counted.
    """
    mix = demand.mix
    random = np.random.default_rng((seed, 1))
    gaps = unit_gaps(requests, demand.cv, random)
    prompts, outputs = mix.draw(requests, random)
    arrived = np.cumsum(gaps) / demand.rate_rps
    each = Steady(model.curve, mix).decoding(demand.rate_rps / replicas)
    left = residual(mix, round(each * replicas), random)
    counted = slice(int(requests * _WARM_SHARE), max(int(requests * (1 - _LAST_SHARE)), 1))
    return play(model, replicas, arrived, prompts, outputs, seed=seed, counted=counted, left=left)


def play(
    model: FleetModel,
    replicas: int,
    arrived: Samples,
    prompts: Tokens,
    outputs: Tokens,
    *,
    seed: int,
    counted: slice | None = None,
    left: Sequence[int] = (),
) -> Simulated:
    """Given requests on `replicas` replicas that never fail.

    Args:
        arrived: ascending, in seconds; with `prompts` and `outputs`, one element a request.
        seed: of the balancer.
        counted: which requests' latencies are counted; all by default.
        left: tokens that others lack who are served from the beginning.
    """
    requests, seats = len(arrived), model.curve.seats
    book = Book(
        [*arrived.tolist(), *([-1.0] * len(left))],
        [*prompts.tolist(), *([1] * len(left))],
        [*outputs.tolist(), *left],
        seats,
    )
    counted = counted or slice(0, requests)
    book.gaps_from_s = float(arrived[counted.start])
    fleet = Fleet(model, book, seed)
    seated = [(requests + at, tokens) for at, tokens in enumerate(left)]
    for index in range(replicas):
        fleet.add(0.0, seated=seated[index::replicas][:seats])
    with no_collection():
        arrive = fleet.arrive
        for request, now in enumerate(arrived.tolist()):
            arrive(request, now)
        fleet.finish()
    window_s = float(arrived[counted.stop - 1] - arrived[counted.start])
    return observed(book, requests, counted, Pace(model.replica), window_s, replicas, fleet.retried)


def observed(
    book: Book,
    requests: int,
    counted: slice,
    pace: Pace,
    window_s: float,
    replicas: float,
    retried: int = 0,
) -> Simulated:
    """The book as samples. Latency outside the engine, which occupies nobody, is added here."""
    arrived = np.array(book.arrived[:requests])[counted]
    first = np.array(book.first[:requests])[counted]
    done = np.array(book.done[:requests])[counted]
    outputs = np.array(book.outputs[:requests])[counted]
    several = outputs > 1
    gap_s = np.array([*pace.steps, *(gap for gap, _ in book.mixed)])
    weights = np.array([*book.decode, *(count for _, count in book.mixed)], float)
    order = np.argsort(gap_s)
    e2el_s = done - arrived + pace.latency_s
    rate = len(arrived) / window_s if window_s > 0 else 0.0
    return Simulated(
        ttft_s=first - arrived + pace.latency_s,
        e2el_s=e2el_s,
        tpot_s=(done - first)[several] / (outputs[several] - 1),
        gap_s=gap_s[order],
        gap_weights=weights[order],
        arrived=requests,
        done=int(np.isfinite(book.done[:requests]).sum()),
        retried=retried,
        window_s=window_s,
        busy=rate * float(np.mean(done - arrived)) / replicas,
    )


@contextmanager
def no_collection() -> Iterator[None]:
    """Without the cycle collector, which finds nothing here and looks at millions of objects for it."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def residual(mix: Mix, count: int, random: np.random.Generator) -> list[int]:
    """Tokens left of `count` answers met at a random moment: long ones are met more often, anywhere in them."""
    if not count:
        return []
    weights = mix.outputs / mix.outputs.sum()
    met = random.choice(mix.outputs, size=count, p=weights)
    left: list[int] = np.maximum(np.ceil(met * random.random(count)), 1).astype(int).tolist()
    return left
