"""Rehearse: the steepest part of the day with every request, under each autoscaler, before a cluster sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tools.capacity.autoscale import Policy
from tools.capacity.autoscaler import Autoscaler, Static
from tools.capacity.failures import FailureModel
from tools.capacity.operate import Operation, operate
from tools.capacity.question import Question
from tools.capacity.steady import Steady
from tools.capacity.traffic import Traffic

__all__ = ["Rehearsal", "rehearse"]

_LENGTH_S = 3600.0
_MOST_REQUESTS = 120_000
_ENOUGH_REPLICAS = 100
"""A larger fleet is rehearsed in a smaller one, no smaller than this, with the same traffic per replica."""


@dataclass(frozen=True)
class Rehearsal:
    """How the promise fared in a part of the day."""

    name: str
    begin_s: float
    "Time of day (UTC), or the offset from the traffic's beginning where its clock isn't known."
    length_s: float
    requests: int
    from_rps: float
    to_rps: float
    values_ms: Mapping[str, float]
    "The promise's metrics over all requests of the part."
    holds: bool
    least_ready: int
    most_ready: int
    failures: int
    retried: int
    "Requests sent anew because their replica failed."
    scale: float
    "Counts, rates and requests above are those of a fleet so many times smaller than the planned one."

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {"values_ms": dict(self.values_ms)}


def rehearse(
    question: Question,
    traffic: Traffic,
    policy: Policy,
    *,
    cold_start_s: float,
    failures: FailureModel | None,
    seed: int,
) -> tuple[Rehearsal, ...]:
    """The part in which traffic grows most, an hour or as long as some ten thousand requests take, three times over:
    with the peak's replicas, with the HPA alone, with the schedule beside it."""
    most_requests = min(_MOST_REQUESTS, question.effort.most_requests)
    wanted = traffic.peak_rps * _LENGTH_S / most_requests
    scale = max(min(wanted, policy.rules.most / _ENOUGH_REPLICAS), 1.0)
    policy = policy.scaled(scale)
    length_s = min(_LENGTH_S, most_requests / traffic.peak_rps * scale, traffic.length_s)
    begin_s = _steepest(traffic, length_s)
    rate = traffic.at(begin_s) / scale
    following = _followed(question.steady, policy, rate)
    scheduled = policy.scheduled_scaler(begin_s)
    cases: tuple[tuple[str, Autoscaler, int], ...] = (
        ("static", Static(policy.rules.most), policy.rules.most),
        ("hpa", policy.hpa_scaler(), following),
        ("scheduled", scheduled, max(following, scheduled.scheduled(0.0))),
    )
    found = []
    for name, scaler, start in cases:
        how = Operation(length_s, start, cold_start_s, failures, seed)
        run = operate(
            question.model, question.mix, lambda now: traffic.at(begin_s + now) / scale, traffic.cv, scaler, how
        )
        values = {n: question.model.corrected(n, run.seen.value_ms(n)) for n in question.slo.bounds()}
        counts = [count for _, count in run.ready]
        found.append(
            Rehearsal(
                name=name,
                begin_s=traffic.start_s + begin_s,
                length_s=length_s,
                requests=run.seen.arrived,
                from_rps=rate,
                to_rps=traffic.at(begin_s + length_s) / scale,
                values_ms=values,
                holds=all(values[n] <= bound for n, bound in question.slo.bounds().items()),
                least_ready=min(counts),
                most_ready=max(counts),
                failures=run.failures,
                retried=run.seen.retried,
                scale=scale,
            )
        )
    return tuple(found)


def _steepest(traffic: Traffic, length_s: float) -> float:
    """Where the rate grows most within `length_s`; the busiest place of a day that never grows."""
    last_s = traffic.length_s if traffic.repeats else traffic.length_s - length_s
    moments = np.linspace(0.0, max(last_s, 0.0), 8 * len(traffic.rates_rps) + 1)
    grown = [(traffic.at(at + length_s) - traffic.at(at), traffic.at(at + length_s), -at) for at in moments.tolist()]
    _, _, later = max(grown)
    return -float(later)


def _followed(steady: Steady, policy: Policy, rate_rps: float) -> int:
    """Where the HPA would have settled at a rate that has lasted."""
    rules, count = policy.rules, max(policy.rules.least, 1)
    while count < rules.most and steady.decoding(rate_rps / count) > rules.target:
        count += 1
    return count
