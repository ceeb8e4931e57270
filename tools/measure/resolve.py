"""Resolve: how many trials it takes to see an effect on this machine, and what a budget can see.

Trials are the unit of replication: requests of one launch share its luck, so thousands of them are still one sample
of how launches differ. To *see a 5 % effect* means that the 95 % interval of the ratio of two sides, n trials each,
reaches at most 5 % to either side.

Latencies and throughputs are compared on the log scale, where a ratio is a difference and noise is about normal. The
odd trial that a neighbour disturbed is no reason for twice the trials: sides are compared by trimmed means, a fifth cut
off at each end, with the t interval of Yuen (1974). Of five trials that is one at each end; where a fifth isn't whole,
the variances of both cuts are mixed, so that the width has no steps.

A plan made from few trials knows the noise badly (five trials: to a third). So it is made again after each trial, and
stops when the interval is narrow enough (Chow & Robbins 1965), never before five trials a side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

from tools.measure.dependence import t_quantile

__all__ = ["LEAST_PILOT", "LEAST_TRIALS", "Plan", "half_width", "plan"]

LEAST_TRIALS = 5
"A side: below, one disturbed trial can't be told from noise."
LEAST_PILOT = 3
"Trials in all from which noise can be guessed at."
_MOST_TRIALS = 100_000
_LARGEST = 700.0
"Of a logarithm that is raised to a number again."
_TRIM = 0.2
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Plan:
    """What it takes to see `effect`. Widths and effects are relative: 0.05 is 5 %."""

    effect: float
    trials_per_side: int
    "In all, those already run among them; as many as the budget allows where it can't do what was asked."
    further_trials: int
    "Still to run, both sides together."
    seconds: float
    "That they take."
    promised_half_width: float
    """Of the ratio's 95 % interval when they have run: the effect where it can be seen, else what the budget can;
    infinite where a side is left with fewer than two trials."""
    expected_half_width: float
    "By the noise so far; below the promise where the least number of trials does better than was asked."
    power: float
    "Chance that an effect of this size is told from none then."
    feasible: bool
    "Whether the promise is as narrow as the effect."
    needed_trials_per_side: int
    "To see the effect, whatever the budget."
    noise: float
    "Spread of trials so far: standard deviation, relative."

    @property
    def done(self) -> bool:
        """Nothing left to run."""
        return self.further_trials == 0

    def __str__(self) -> str:
        cost = f"{self.further_trials} more trials, {self.seconds / 60:.1f} min"
        if self.feasible:
            return (
                f"{self.trials_per_side} trials a side resolve {self.effect:.1%} "
                f"({cost}; an effect of that size is seen with {self.power:.0%} chance)"
            )
        told = f"{self.promised_half_width:.1%}" if math.isfinite(self.promised_half_width) else "nothing"
        return (
            f"the budget can't resolve {self.effect:.1%}, which takes about {self.needed_trials_per_side} trials a "
            f"side; {self.trials_per_side} resolve {told} ({cost})"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; a width that is infinite is None."""
        return {name: None if value == math.inf else value for name, value in asdict(self).items()}


def plan(
    first: Sequence[float],
    second: Sequence[float] = (),
    *,
    effect: float,
    seconds_per_trial: float,
    budget_s: float | None = None,
) -> Plan:
    """How to go on after these trials, whose metric's values are `first` and `second` for the two sides.

    A pilot may have trials of one side alone: both are taken to be as noisy. `budget_s` is what is left of it.

    Raises:
        ValueError: fewer than 3 trials, a value that isn't positive and finite, an effect or a time that isn't.
    """
    if len(first) + len(second) < LEAST_PILOT:
        raise ValueError(f"expected at least {LEAST_PILOT} trials to plan from, found {len(first) + len(second)}")
    if not 0 < effect < math.inf or not 0 < seconds_per_trial < math.inf:
        raise ValueError(f"expected an effect and seconds above 0, found {effect} and {seconds_per_trial}")
    sides = [_logs(side) for side in (first, second)]
    variance = _pooled([side for side in sides if len(side) >= 2])
    run = [len(side) for side in sides]
    needed = max(_needed(variance, math.log1p(effect)), LEAST_TRIALS, *run)
    affordable = needed
    if budget_s is not None:
        affordable = _affordable(run, int(max(budget_s, 0.0) // seconds_per_trial))
    trials = min(needed, affordable)
    further = sum(max(trials - have, 0) for have in run)
    expected = math.inf
    if trials >= 2:
        # With both sides complete it is no forecast any more.
        width = _log_width(sides[0], sides[1]) if run == [trials, trials] else _width(variance, trials)
        expected = math.expm1(min(width, _LARGEST))
    feasible = trials >= LEAST_TRIALS and expected <= effect
    return Plan(
        effect=effect,
        trials_per_side=trials,
        further_trials=further,
        seconds=further * seconds_per_trial,
        promised_half_width=effect if feasible else expected,
        expected_half_width=expected,
        power=_power(variance, trials, math.log1p(effect)) if trials >= 2 else 0.0,
        feasible=feasible,
        needed_trials_per_side=needed,
        noise=math.expm1(min(math.sqrt(variance), _LARGEST)),
    )


def half_width(first: Sequence[float], second: Sequence[float], confidence: float = _CONFIDENCE) -> float:
    """How far the interval of the ratio of the two sides reaches from it, relative; e.g. 0.05: 5 % up.

    Raises:
        ValueError: fewer than two trials of a side, or a value that isn't positive and finite.
    """
    if min(len(first), len(second)) < 2:
        raise ValueError(f"expected at least 2 trials of each side, found {len(first)} and {len(second)}")
    return math.expm1(min(_log_width(_logs(first), _logs(second), confidence), _LARGEST))


def _logs(values: Sequence[float]) -> list[float]:
    if any(not 0 < value < math.inf for value in values):
        raise ValueError(f"expected positive, finite values, found {list(values)}")
    return [math.log(value) for value in values]


def _kept(trials: int) -> float:
    """What trimming leaves."""
    return trials * (1 - 2 * _TRIM)


def _error_squared(logs: Sequence[float]) -> float:
    """Squared standard error of the trimmed mean: Yuen's, from the winsorised variance."""
    cut = int(_TRIM * len(logs))
    part = _TRIM * len(logs) - cut
    ascending = sorted(logs)
    squares = (1 - part) * _winsorised_squares(ascending, cut)
    if part > 0:
        squares += part * _winsorised_squares(ascending, cut + 1)
    kept = _kept(len(logs))
    return squares / (kept * (kept - 1))


def _winsorised_squares(ascending: Sequence[float], cut: int) -> float:
    """Sum of squares about the mean, `cut` values at each end moved to the last one kept."""
    low = ascending[min(cut, (len(ascending) - 1) // 2)]
    high = ascending[max(len(ascending) - 1 - cut, len(ascending) // 2)]
    winsorised = [min(max(value, low), high) for value in ascending]
    mean = math.fsum(winsorised) / len(winsorised)
    return math.fsum((value - mean) ** 2 for value in winsorised)


def _pooled(sides: Sequence[Sequence[float]]) -> float:
    """Variance of one trial that the trimmed means' errors stand for, over all sides."""
    if not sides:
        raise ValueError("expected at least 2 trials of one side to plan from")
    weights = [len(side) - 1 for side in sides]
    each = [_error_squared(side) * len(side) for side in sides]
    return math.fsum(w * v for w, v in zip(weights, each, strict=True)) / sum(weights)


def _log_width(first: Sequence[float], second: Sequence[float], confidence: float = _CONFIDENCE) -> float:
    """Half-width of the interval of the difference of two trimmed means (Yuen 1974, degrees of freedom by Welch)."""
    parts = [(_error_squared(side), _kept(len(side)) - 1) for side in (first, second)]
    error_squared = sum(part for part, _ in parts)
    if error_squared == 0:
        return 0.0
    freedom = error_squared**2 / sum(part**2 / degrees for part, degrees in parts)
    return t_quantile((1 + confidence) / 2, freedom) * math.sqrt(error_squared)


def _width(variance: float, trials: int) -> float:
    return t_quantile((1 + _CONFIDENCE) / 2, 2 * (_kept(trials) - 1)) * math.sqrt(2 * variance / trials)


def _needed(variance: float, log_effect: float) -> int:
    """Least trials a side whose interval is expected to be narrow enough; found by halving, since width falls."""
    low, high = 1, 2
    while _width(variance, high) > log_effect:
        low, high = high, 2 * high
        if high > _MOST_TRIALS:
            return _MOST_TRIALS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _width(variance, middle) <= log_effect else (middle, high)
    return high


def _affordable(run: Sequence[int], further: int) -> int:
    """Trials a side when `further` more are run, the side that has fewer first."""
    low, high = sorted(run)
    return low + further if further <= high - low else high + (further - (high - low)) // 2


def _power(variance: float, trials: int, log_effect: float) -> float:
    """Chance that a t test at the interval's level tells `log_effect` from none (the noncentral t distribution by
    Abramowitz & Stegun 26.7.10; the wrong side's tail left out)."""
    if variance == 0:
        return 1.0
    freedom = 2 * (_kept(trials) - 1)
    shift = log_effect / math.sqrt(2 * variance / trials)
    bound = t_quantile((1 + _CONFIDENCE) / 2, freedom)
    beyond = (bound * (1 - 1 / (4 * freedom)) - shift) / math.sqrt(1 + bound**2 / (2 * freedom))
    return NormalDist().cdf(-beyond)
