"""Planner: every choice over the day, the cheapest one taken, and a closer look at that one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tools.capacity.autoscale import Policy, derive_policy
from tools.capacity.autoscaler import Autoscaler, Static
from tools.capacity.day import DayRun, simulate_day
from tools.capacity.degraded import degraded_mode
from tools.capacity.least import least_replicas
from tools.capacity.plan import CapacityPlan, Choice, Interval, Terms
from tools.capacity.prices import Cost
from tools.capacity.question import Finding, Question
from tools.capacity.rehearse import rehearse
from tools.capacity.traffic import Traffic
from tools.errors import UserError

__all__ = ["make_plan"]

Say = Callable[[str, str], None]
"""Called with what is being done and on what."""

_ALIKE = 0.01
"""Rates this share apart are planned as the higher of them."""
_MISSING = 0.01
"""Of the needed replicas: degraded mode looks at steps of so many, or of one."""
_TARGETS = 6
"""So many targets are tried for the autoscaler, ..."""
_LOWER = (1.0, 0.95, 0.9, 0.8, 0.7)
"""... and then these shares of the lowest."""
_MISSED = 0.001
"""Share of a day's requests that may come while an autoscaler lags behind."""


@dataclass
class _Planned:
    """One choice, planned over the day."""

    choice: Choice
    question: Question
    intervals: tuple[Interval, ...]


def make_plan(
    choices: Sequence[Choice], traffic: Traffic, terms: Terms, currency: str | None = None, say: Say = lambda *_: None
) -> CapacityPlan:
    """Plan every choice over the day, take the cheapest, and look closer at that one.

    Raises:
        UserError: no choice keeps the promise at any number of replicas.
    """
    if not terms.slo.bounds():
        raise UserError('expected a promise to plan for, found none; give --slo "ttft_ms.p95=500"')
    planned: list[_Planned] = []
    why_not: dict[str, str] = {}
    spent = 0
    for choice in choices:
        say("plan", choice.name)
        question = Question(choice.model, choice.mix, terms.slo, traffic.cv, terms.effort)
        try:
            planned.append(_Planned(choice, question, _over_the_day(question, traffic, terms, say)))
        except UserError as error:
            why_not[choice.name] = str(error)
        spent += question.spent
    if not planned:
        raise UserError("no choice keeps the promise at any number of replicas: " + "; ".join(why_not.values()))
    costs = {each.choice.name: _cost(each, traffic) for each in planned}
    best = min(planned, key=lambda each: _rank(costs[each.choice.name], each))
    peak = max(best.intervals, key=lambda interval: interval.rate_rps)
    say("degraded mode", f"{peak.provisioned} replicas and fewer")
    before = best.question.spent
    spare = peak.provisioned - peak.needed
    unit = max(round(peak.needed * _MISSING), 1)
    missing = sorted({0, spare, *(spare + unit * count for count in range(1, terms.degraded + 1))})
    degraded = degraded_mode(best.question, peak.provisioned, peak.rate_rps, missing)
    failures = terms.failures()
    say("autoscaling", "the day under three policies")
    policy = _policy(best, traffic, terms)
    rehearsals = rehearse(
        best.question,
        traffic,
        policy,
        cold_start_s=terms.cold_start_s,
        failures=failures,
        seed=terms.effort.seed,
    )
    return CapacityPlan(
        hardware=best.choice.name,
        balancer=best.choice.model.balancer,
        slo=terms.slo.bounds(),
        traffic=traffic,
        mix=best.choice.mix,
        intervals=best.intervals,
        headroom=failures.headroom(peak.needed) if failures else None,
        degraded=degraded,
        costs=tuple(costs.get(choice.name) or Cost(choice.name, why_not=why_not[choice.name]) for choice in choices),
        currency=currency,
        policy=policy,
        days=_days(best, traffic, terms, policy),
        rehearsals=rehearsals,
        cold_start_s=terms.cold_start_s,
        simulated_requests=spent + best.question.spent - before + sum(each.requests for each in rehearsals),
        assumptions=_assumptions(best, traffic, terms),
    )


def _over_the_day(question: Question, traffic: Traffic, terms: Terms, say: Say) -> tuple[Interval, ...]:
    """From the busiest interval to the quietest, each search beginning where the last one ended."""
    failures = terms.failures()
    found: dict[int, Finding] = {}
    last: Finding | None = None
    order = sorted(range(len(traffic.rates_rps)), key=lambda i: -traffic.rates_rps[i])
    for place, index in enumerate(order):
        rate = traffic.rates_rps[index]
        if rate <= 0:
            found[index] = Finding(0, 0.0, True, {}, 0.0, 0.0, 0)
            continue
        if last is None or rate < last.rate_rps * (1 - _ALIKE):
            say("plan", f"{question.model.curve.name}: {place + 1} of {len(order)} intervals, {rate:.3g} requests/s")
            start = round(last.replicas * rate / last.rate_rps) if last else None
            last = least_replicas(question, rate, start=start)
        found[index] = last
    intervals = []
    for index, (rate, mean) in enumerate(zip(traffic.rates_rps, traffic.mean_rps, strict=True)):
        finding = found[index]
        needed = finding.replicas
        intervals.append(
            Interval(
                start_s=traffic.begin_s(index),
                rate_rps=rate,
                mean_rps=mean,
                needed=needed,
                provisioned=failures.headroom(needed).replicas if failures and needed else needed,
                utilisation=rate / (needed * question.most_rps) if needed else 0.0,
                values_ms=dict(finding.values_ms),
            )
        )
    return tuple(intervals)


def _cost(each: _Planned, traffic: Traffic) -> Cost:
    peak = max(interval.provisioned for interval in each.intervals)
    price = each.choice.price
    if price is None:
        return Cost(each.choice.name, peak_replicas=peak)
    mean = sum(interval.provisioned for interval in each.intervals) / len(each.intervals)
    per_day = mean * 24 * price.replica_per_hour
    mix = each.choice.mix
    output_millions = traffic.requests_a_day * mix.mean_output / 1e6
    all_millions = traffic.requests_a_day * (mix.mean_prompt + mix.mean_output) / 1e6
    return Cost(
        each.choice.name,
        peak_replicas=peak,
        gpus=peak * price.gpus_per_replica,
        per_day_static=peak * 24 * price.replica_per_hour,
        per_day=per_day,
        per_million_tokens=per_day / all_millions,
        per_million_output_tokens=per_day / output_millions,
    )


def _rank(cost: Cost, each: _Planned) -> tuple[bool, float]:
    """Priced ones by price; without a price list, by replicas."""
    if cost.per_day is None:
        return True, float(sum(interval.provisioned for interval in each.intervals))
    return False, cost.per_day


def _policy(best: _Planned, traffic: Traffic, terms: Terms) -> Policy:
    """The laziest autoscaler that is still in time: of the loads per replica that the plan has, from the highest down,
    the first whose HPA misses next to nothing of the day. Small fleets bear less each, so one target can't fit all."""
    each = sorted({i.rate_rps / i.needed for i in best.intervals if i.needed}, reverse=True)
    policy = None
    lower = [each[-1] * share for share in _LOWER]
    for each_rps in each[:: max(len(each) // _TARGETS, 1)] + lower:
        policy = derive_policy(
            best.question.steady,
            traffic,
            [interval.provisioned for interval in best.intervals],
            each_rps,
            cold_start_s=terms.cold_start_s,
            scrape_s=terms.scrape_s,
        )
        if _day(best, traffic, terms, "hpa", policy.hpa_scaler()).missed_share <= _MISSED:
            break
    assert policy is not None  # traffic has a peak above 0
    return policy


def _days(best: _Planned, traffic: Traffic, terms: Terms, policy: Policy) -> tuple[DayRun, ...]:
    """The planned day under three policies: always the peak's replicas, an HPA alone, and a schedule beside it."""
    scalers: tuple[tuple[str, Autoscaler], ...] = (
        ("static", Static(policy.rules.most)),
        ("hpa", policy.hpa_scaler()),
        ("scheduled", policy.scheduled_scaler()),
    )
    return tuple(_day(best, traffic, terms, name, scaler) for name, scaler in scalers)


def _day(best: _Planned, traffic: Traffic, terms: Terms, name: str, scaler: Autoscaler) -> DayRun:
    start = scaler.replicas if isinstance(scaler, Static) else best.intervals[0].provisioned
    return simulate_day(
        name,
        scaler,
        traffic.at,
        _needed_at(best),
        best.question.steady,
        cv=traffic.cv,
        length_s=traffic.length_s,
        cold_start_s=terms.cold_start_s,
        start=max(start, 1),
        failures=terms.failures(),
        seed=terms.effort.seed,
    )


def _needed_at(best: _Planned) -> Callable[[float], int]:
    """Replicas needed at any rate, linear between the rates that were planned, and by them in proportion below."""
    pairs = sorted({(i.rate_rps, i.needed) for i in best.intervals if i.needed})
    rates = np.array([0.0, *(rate for rate, _ in pairs)])
    counts = np.array([0.0, *(float(count) for _, count in pairs)])
    return lambda rate: int(np.ceil(np.interp(rate, rates, counts) - 1e-9))


def _assumptions(best: _Planned, traffic: Traffic, terms: Terms) -> tuple[str, ...]:
    mix = best.choice.mix
    found = [
        f"request lengths: {mix.source} (means {mix.mean_prompt:.0f} uncached prompt and {mix.mean_output:.0f} output "
        "tokens); prefix caches hit as well in the fleet as they did when the curve was measured",
        f"within an interval, arrivals are a stationary renewal process with a coefficient of variation of "
        f"{traffic.cv:.2f} between requests",
        f"requests go to replicas by {best.choice.model.balancer}",
        "no replica runs out of cache memory: the curve's seats are the limit",
    ]
    if not traffic.clock_known:
        found.append(
            f"{traffic.source} doesn't tell its hours' time of day: parts are told by their offset from its beginning, "
            "and keda.yaml has no schedule; the policy 'scheduled' shows what one at the right hours would give"
        )
    if terms.mttf_s is not None:
        found.append(
            "replicas fail independently of each other"
            + (
                f", and one of {terms.zones} zones may be lost as a whole"
                if terms.zones > 1
                else "; a zone or a release that takes several down at once isn't covered (see --zones)"
            )
        )
    return tuple(found)
