"""Marginal effects: what each knob did by itself, on average over the trials, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, median, stdev

from agents.view import TrialView, View
from tools.targets.knobs import Knob, Value

__all__ = ["Effect", "marginal_effects"]

_NUMBERS_APART = 3
"Of a number with more values than this, the lower half is compared with the upper."


@dataclass(frozen=True, slots=True)
class Effect:
    """The mean gain of the trials in which a knob had one of some values."""

    values: str
    "Such as `16`, `<=16` or `>16`."
    gain: float
    "Relative, over the baseline: 0.2 = 20 % better."
    error: float
    "Standard error of it. Other knobs changed too, and are taken as chance; it is never below the launches' noise."
    trials: int


def marginal_effects(view: View, most: int) -> Mapping[str, tuple[Effect, ...]]:
    """The `most` knobs that told most: those whose groups of trials differ most in gain, in units of the error.

    Only measured trials count. A knob that always had the same value tells nothing, and is left out.
    """
    baseline = view.baseline_trial
    if baseline is None or not baseline.measured:
        return {}
    gains = [(trial, view.gain(trial, baseline)) for trial in view.trials if trial.measured]
    found = {knob.name: _effects(knob, gains, view) for knob in view.space if knob.tunable}
    ranked = sorted((name for name in found if len(found[name]) > 1), key=lambda name: -_contrast(found[name]))
    return {name: found[name] for name in ranked[:most]}


def _effects(knob: Knob, gains: list[tuple[TrialView, float]], view: View) -> tuple[Effect, ...]:
    of_it = [(trial.patch.get(knob.name, view.baseline.values.get(knob.name, knob.default)), g) for trial, g in gains]
    groups: dict[str, list[float]] = {}
    for (_, gain), label in zip(of_it, _labels(knob, [value for value, _ in of_it]), strict=True):
        groups.setdefault(label, []).append(gain)
    noise = view.noise or 0.0
    return tuple(Effect(label, fmean(group), _error(group, noise), len(group)) for label, group in groups.items())


def _labels(knob: Knob, values: list[Value]) -> list[str]:
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if knob.kind in ("bool", "choice") or len(numbers) < len(values) or len(set(numbers)) <= _NUMBERS_APART:
        return [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
    middle = median(numbers)
    if middle == max(numbers):
        middle = max(number for number in numbers if number < middle)
    return [f"<={middle:.6g}" if number <= middle else f">{middle:.6g}" for number in numbers]


def _error(gains: list[float], noise: float) -> float:
    return max(stdev(gains) if len(gains) > 1 else 0.0, noise) / math.sqrt(len(gains))


def _contrast(effects: tuple[Effect, ...]) -> float:
    """How far the best and the worst group lie apart, in standard errors of the difference."""
    best, worst = max(effects, key=lambda e: e.gain), min(effects, key=lambda e: e.gain)
    apart = best.gain - worst.gain
    return apart / (math.hypot(best.error, worst.error) or math.inf) if apart else 0.0
