"""Predict: what the latencies of a mix would be at any rate, from a fitted replica, without sending a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from tools.measure.draw import draw
from tools.measure.workload import WorkloadSpec
from tools.service.fit import Fit
from tools.service.jobs import Job
from tools.service.load_spec import all_at_once, at_rate
from tools.service.simulate import Played, simulate

__all__ = ["KNEE_FACTOR", "Prediction", "Predictor", "largest"]

KNEE_FACTOR = 2.0
"""The knee is the largest rate at which P95 TTFT is at most this many times what it is without company.

At twice the floor, half of the tail is waiting and no longer work. A curvature (Kneedle and the like) depends on the
range that was scanned and on its scale; this doesn't, and it can be told to a user in one sentence.
"""

_FEWEST_REQUESTS = 400
"Played per seed, at least: fewer, and a rate above capacity looks fine because the queue had no time to grow."
_SEEDS = 5
_SATURATED_JOBS = 30
"Jobs per seat of the load that shows the capacity."
_REPLAYS = 16
_ALONE = 0.02
"Share of the capacity at which requests hardly meet."


@dataclass(frozen=True, slots=True)
class Prediction:
    """Flat metrics at one rate: of all seeds pooled, and the lowest and highest of any one seed."""

    rate_rps: float
    metrics: Mapping[str, float]
    low: Mapping[str, float]
    high: Mapping[str, float]

    def to_json(self) -> dict[str, float]:
        """One flat object: the metrics, and each with `low_` and `high_` before its name."""
        ends = {f"low_{name}": value for name, value in self.low.items()}
        ends |= {f"high_{name}": value for name, value in self.high.items()}
        return {"rate_rps": self.rate_rps, **self.metrics, **ends}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Prediction:
        """The prediction that `to_json` wrote."""
        parts: dict[str, dict[str, float]] = {"low": {}, "high": {}, "": {}}
        for name, value in data.items():
            end = name.partition("_")[0]
            if end in ("low", "high"):
                parts[end][name.partition("_")[2]] = value
            elif name != "rate_rps":
                parts[""][name] = value
        return cls(data["rate_rps"], parts[""], parts["low"], parts["high"])


class Predictor:
    """Plays a mix at rates of choice. The same seeds at every rate: neighbouring rates differ by the rate alone."""

    def __init__(self, fit: Fit, spec: WorkloadSpec, *, seed: int = 0, seeds: int = _SEEDS) -> None:
        self.fit = fit
        self.spec = spec
        self._seeds = range(seed, seed + seeds)
        self._requests = max(spec.requests, _FEWEST_REQUESTS)
        self._known: dict[float, Prediction] = {}
        self.capacity_rps = self._capacity_rps()

    def at(self, rate_rps: float) -> Prediction:
        """What a long load at `rate_rps` conversation starts a second would show."""
        if rate_rps not in self._known:
            spec = at_rate(self.spec, rate_rps, self._replayable(self._requests))
            played = [self._play(spec, seed) for seed in self._seeds]
            each = [self.fit.summary(part) for part in played]
            pooled = self.fit.summary(*played)
            ends = {name: [one[name] for one in each if name in one] for name in pooled}
            self._known[rate_rps] = Prediction(
                rate_rps,
                pooled,
                {name: min(values) for name, values in ends.items() if values},
                {name: max(values) for name, values in ends.items() if values},
            )
        return self._known[rate_rps]

    def load(self, spec: WorkloadSpec, seed: int) -> dict[str, float]:
        """Flat metrics of the very load that `materialise(spec, seed)` is: its lengths, its moments, its length.

        Who is read in which step hangs on milliseconds, and one request more or less in a step moves a percentile of
        few; so the load is played several times, the engine hearing of each request a little earlier or later, and the
        mean of each metric is the prediction.
        """
        jobs, random = self._jobs(spec, seed), np.random.default_rng(seed)
        spread_s = self.fit.replica.latency_s
        found: dict[str, list[float]] = {}
        for _ in range(_REPLAYS):
            lag_s = (spread_s * random.uniform(-1, 1, len(jobs))).tolist()
            for metric, value in self.fit.summary(simulate(self.fit.replica, jobs, lag_s=lag_s)).items():
                found.setdefault(metric, []).append(value)
        return {metric: fmean(values) for metric, values in found.items()}

    def length_s(self, spec: WorkloadSpec, seed: int) -> float:
        """Seconds that the load `materialise(spec, seed)` would take, to its last token."""
        return self._play(spec, seed).window_s

    def knee_rps(self) -> float:
        """The largest rate below capacity at which P95 TTFT is at most KNEE_FACTOR times what it is without company."""
        alone_ms = self.at(_ALONE * self.capacity_rps).metrics["p95_ttft_ms"]

        def flat(rate_rps: float) -> bool:
            return self.at(rate_rps).metrics["p95_ttft_ms"] <= KNEE_FACTOR * alone_ms

        return largest(flat, _ALONE * self.capacity_rps, self.capacity_rps) or _ALONE * self.capacity_rps

    def sweep(self, extra: Sequence[float] = (), points: int = 16) -> tuple[Prediction, ...]:
        """Predictions from nobody to a little above capacity, and at the rates of `extra`, ascending."""
        rates = {round(float(share) * self.capacity_rps, 4) for share in np.linspace(0.05, 1.1, points)}
        return tuple(self.at(rate) for rate in sorted(rates | set(extra)))

    def _play(self, spec: WorkloadSpec, seed: int) -> Played:
        return simulate(self.fit.replica, self._jobs(spec, seed))

    def _jobs(self, spec: WorkloadSpec, seed: int) -> tuple[Job, ...]:
        return self.fit.tokens.jobs(draw(spec, spec.requests, seed, part="measured", scheduled=True))

    def _capacity_rps(self) -> float:
        """Conversation starts a second in the middle of a load that is always waiting: after the seats have filled and
        before they empty. Turns follow one another without a pause: a pause takes no seat."""
        replica = self.fit.replica
        count = max(_SATURATED_JOBS * min(replica.curve.seats, 100), _FEWEST_REQUESTS)
        jobs = self._jobs(all_at_once(self.spec, count, self.spec.timeout_s), self._seeds[0])
        followed = {job.after for job in jobs if job.after >= 0}
        jobs = tuple(Job(job.due_s, job.prompt_tokens, job.output_tokens, job.after) for job in jobs)
        played = simulate(replica, jobs)
        ends = np.sort([end for place, end in enumerate(played.last_token_s.tolist()) if place not in followed])
        first, last = len(ends) // 5, len(ends) - len(ends) // 5 - 1
        if ends[last] <= ends[first]:  # all at once: there's no middle
            return len(ends) / float(ends[-1])
        return float((last - first) / (ends[last] - ends[first]))

    def _replayable(self, requests: int) -> int:
        """No more requests than the spec has where its arrivals are the moments of a log."""
        return min(requests, self.spec.requests) if self.spec.arrivals.kind == "replay" else requests


def largest(holds: Callable[[float], bool], low: float, high: float, precision: float = 0.01) -> float | None:
    """The largest value from `low` to `high` at which `holds`, which is true below some boundary and false above it.

    By bisection to `precision` of the value; the answer itself was seen to hold. None where `low` doesn't.
    """
    if not holds(low):
        return None
    if holds(high):
        return high
    while high - low > precision * high:
        middle = (low + high) / 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low
