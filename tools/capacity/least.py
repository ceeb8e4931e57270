"""Least: the fewest replicas that keep a promise at a rate, and the highest rate that so many keep it at."""

from __future__ import annotations

import math
from dataclasses import replace

from tools.capacity.question import Finding, Question
from tools.errors import UserError

__all__ = ["RESOLUTION", "at_size", "least_replicas", "most_rate"]

RESOLUTION = 0.002
"""Of a large fleet: counts this share apart aren't told apart. Below 750 replicas every single one is."""

_SMALL = 512
"""Beyond so many replicas, the search begins with a fleet of this size at the same rate per replica."""
_PILOT_REQUESTS = 20_000
_FARTHEST = 256
"""The search gives up at so many times the first guess."""
_RATE_STEPS = 10


def least_replicas(question: Question, rate_rps: float, *, start: int | None = None) -> Finding:
    """The fewest replicas that keep the promise at `rate_rps`, as far as simulation can tell.

    A guess (`start`, or square-root staffing) is widened until one count holds and a smaller one doesn't, and the gap
    is halved until they are neighbours. All simulations draw the same traffic, so that counts differ by themselves
    alone. The promise is taken to be kept by every larger fleet.

    A large fleet is first searched small, at the same rate per replica: with hundreds of replicas behind one balancer
    each hardly feels the others (propagation of chaos), so that the small fleet's answer is off by little, and few
    large simulations are left to do. For the same reason, once a large fleet has been found, others of the same
    question bear the same per replica and aren't simulated again.

    Raises:
        UserError: no number of replicas keeps it.
    """
    if why := question.unreachable():
        raise UserError(f"{question.model.curve.name}: no number of replicas keeps the promise: {why}")
    floor = question.least_stable(rate_rps)
    guess = max(start or question.steady.guess(rate_rps, question.slo), floor)
    if guess <= _SMALL:
        return _narrow(question, rate_rps, guess, floor, 1)
    if question.large is None:
        each_rps = _small_rate(question)
        guess = max(math.ceil(rate_rps / each_rps), floor)
        found = _narrow(question, rate_rps, guess, floor, max(1, round(RESOLUTION * guess)))
        if found.replicas > _SMALL:
            question.large = min(each_rps, rate_rps / found.replicas), found
        return found
    each_rps, alike = question.large
    count = max(math.ceil(rate_rps / each_rps), floor)
    if count <= _SMALL:
        return _narrow(question, rate_rps, count, floor, 1)
    utilisation = rate_rps / (count * question.most_rps)
    return replace(alike, replicas=count, rate_rps=rate_rps, utilisation=utilisation, simulations=0)


def at_size(question: Question, replicas: int, rate_rps: float) -> Finding:
    """What `replicas` replicas do at a rate, seen for long even where they are far from keeping the promise; a large
    fleet is looked at in a small one with the same rate per replica."""
    if replicas <= _SMALL:
        return question.ask(replicas, rate_rps, thorough=True)
    found = question.ask(_SMALL, rate_rps * _SMALL / replicas, thorough=True)
    return replace(found, replicas=replicas, rate_rps=rate_rps)


def most_rate(question: Question, replicas: int, *, below_rps: float | None = None) -> float:
    """The highest rate, within a hundredth, at which `replicas` keep the promise; 0 where there is none.

    Args:
        below_rps: not to look beyond; the fleet's ceiling by default.
    """
    if replicas < 1 or question.unreachable():
        return 0.0
    if replicas > _SMALL:
        below = None if below_rps is None else below_rps * _SMALL / replicas
        return most_rate(question, _SMALL, below_rps=below) * replicas / _SMALL
    high = replicas * question.most_rps
    if below_rps is not None and below_rps < high:
        if question.ask(replicas, below_rps).holds:
            return below_rps
        high = below_rps
    low, scale = 0.0, high
    for _ in range(_RATE_STEPS):
        if high - low <= 0.01 * high:
            break
        middle = (low + high) / 2 if low else high * 0.75
        if question.ask(replicas, middle).holds:
            low = middle
        else:
            high = middle
        if high < 1e-3 * scale:
            return 0.0
    return low


def _narrow(question: Question, rate_rps: float, guess: int, floor: int, unit: int) -> Finding:
    found = question.ask(guess, rate_rps)
    stride = unit
    if found.holds:
        high, low = found, floor - 1
        while high.replicas > floor:
            tried = question.ask(max(high.replicas - stride, floor), rate_rps)
            if not tried.holds:
                low = tried.replicas
                break
            high, stride = tried, stride * 2
    else:
        low = guess
        while True:
            high = question.ask(low + stride, rate_rps)
            if high.holds:
                break
            low, stride = high.replicas, stride * 2
            if low > _FARTHEST * guess:
                missed = ", ".join(f"{name} {value:.4g}" for name, value in high.values_ms.items())
                raise UserError(
                    f"{question.model.curve.name}: {low} replicas still don't keep the promise ({missed} ms); "
                    "it is too near to what a single request takes, or arrivals too bursty; loosen the bound"
                )
    while high.replicas - low > unit:
        tried = question.ask((high.replicas + low) // 2, rate_rps)
        if tried.holds:
            high = tried
        else:
            low = tried.replicas
    return high


def _small_rate(question: Question) -> float:
    """The highest rate per replica that a small fleet holds."""
    effort = replace(question.effort, requests=min(question.effort.requests, _PILOT_REQUESTS), simulations=1)
    small = replace(question, effort=effort, spent=0, _kept={})
    low, high = 0.5 * question.most_rps, question.most_rps
    while small.ask(_SMALL, low * _SMALL).holds is False and low > 1e-3 * question.most_rps:
        low, high = low / 2, low
    while high - low > RESOLUTION / 2 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if small.ask(_SMALL, middle * _SMALL).holds else (low, middle)
    question.spent += small.spent
    return low
