"""What an LLM is shown of a view, as compact JSON data: first what stays for a run, then what a turn changes.

The ledger is summarised, never listed: however many trials there were, as many are shown. Each has a reason to be: the
baseline, the best, the last, one of each kind of failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from agents.marginal import Effect, marginal_effects
from agents.untrusted import one_line
from agents.view import HypothesisView, TrialView, View

__all__ = ["facts", "shown_trials", "state"]

_TRIALS = 8
_BEST, _LAST, _FAILURES = 3, 3, 2
_EFFECTS = 6
_HYPOTHESES = 5
_NOTES = 4
_REASON_CHARS, _HYPOTHESIS_CHARS = 120, 100
_DETAILS = ("p95_ttft_ms", "p95_itl_ms", "p95_tpot_ms", "mean_e2el_ms", "request_throughput", "output_throughput")


def facts(view: View) -> dict[str, Any]:
    """What is the same in every turn of a run, for the prefix that a server may cache."""
    return {
        "deployment": one_line(view.deployment),
        "objective": {"metric": view.objective_metric, "better": "lower" if view.lower_is_better else "higher"},
        "slo_upper_bounds": dict(view.slo),
        "workload": {name: _short(value) for name, value in view.workload.items()},
        "hardware": {name: _short(value) for name, value in view.hardware.items()},
        "baseline_config": dict(view.baseline.values),
    }


def state(view: View) -> dict[str, Any]:
    """What a turn can change. Its size doesn't grow with the trials."""
    outcomes = Counter(str(trial.outcome) for trial in view.trials)
    data = {
        "trials_made": {"all": len(view.trials), **outcomes},
        "best_trial": view.best.id if view.best is not None else None,
        "least_relative_gain": _short(view.least_gain),
        "noise": _short(view.noise) if view.noise is not None else "unknown; measure a trial again to learn it",
        "trials": [_trial(trial, view) for trial in shown_trials(view)],
        "knob_effects": {name: _effects(effects) for name, effects in marginal_effects(view, _EFFECTS).items()},
        "hypotheses": [_hypothesis(one) for one in _telling(view.hypotheses)],
        "search_is_told": [
            {"knob": r.knob, "low": r.low, "high": r.high, "values": list(r.values), "weight": r.weight}
            for r in view.regions
        ],
        "refuted_earlier": [one_line(note) for note in view.notes[-_NOTES:]],
        "trials_left": view.trials_left,
        "seconds_left": round(view.seconds_left),
    }
    return {name: value for name, value in data.items() if value not in ([], {})}


def shown_trials(view: View) -> tuple[TrialView, ...]:
    """The trials that a prompt shows, in their order: as many as fit, the most telling first chosen."""
    chosen: dict[str, TrialView] = {}
    for trial in _by_interest(view):
        if len(chosen) < _TRIALS:
            chosen.setdefault(trial.id, trial)
    return tuple(trial for trial in view.trials if trial.id in chosen)


def _by_interest(view: View) -> Iterator[TrialView]:
    if view.baseline_trial is not None:
        yield view.baseline_trial
    best = sorted(
        (trial for trial in view.trials if trial.measured),
        key=lambda t: (view.shortfall(t), (t.objective or 0.0) * (1 if view.lower_is_better else -1)),
    )
    yield from best[:_BEST]
    failures = {trial.outcome: trial for trial in view.trials if not trial.measured}  # the last one of each kind
    yield from list(failures.values())[-_FAILURES:]
    yield from view.trials[-_LAST:]
    yield from best[_BEST:]
    yield from reversed(view.trials)


def _trial(trial: TrialView, view: View) -> dict[str, Any]:
    baseline = view.baseline_trial
    gains = trial.measured and baseline is not None and trial is not baseline
    telling = trial in (baseline, view.best)
    wanted = (view.objective_metric, *view.slo, *(_DETAILS if telling else ()))
    data = {
        "id": trial.id,
        "patch": dict(trial.patch),
        "by": trial.source,
        "outcome": trial.outcome,
        "gain": _percent(view.gain(trial, baseline)) if gains and baseline is not None else "",
        "metrics": {name: _short(trial.metrics[name]) for name in dict.fromkeys(wanted) if name in trial.metrics},
        "slo_misses": list(trial.slo_misses),
        "reason": one_line(trial.reason, _REASON_CHARS),
    }
    return {name: value for name, value in data.items() if value not in ("", [], {}) or name == "patch"}


def _effects(effects: Iterable[Effect]) -> dict[str, str]:
    """`{"<=16": "+3% ±2 (5 trials)"}`."""
    return {e.values: f"{_percent(e.gain)} ±{100 * e.error:.0f} ({e.trials} trials)" for e in effects}


def _telling(hypotheses: tuple[HypothesisView, ...]) -> tuple[HypothesisView, ...]:
    """The latest; those that were refuted before those that weren't."""
    refuted = [one for one in hypotheses if one.status == "refuted"][-_HYPOTHESES + 1 :]
    others = [one for one in hypotheses if one.status != "refuted"]
    kept = [*refuted, *others[len(others) - (_HYPOTHESES - len(refuted)) :]] if len(hypotheses) > _HYPOTHESES else None
    return hypotheses if kept is None else tuple(one for one in hypotheses if one in kept)


def _hypothesis(one: HypothesisView) -> dict[str, str]:
    said = one_line(one.text, _HYPOTHESIS_CHARS)
    return {"trial": one.trial, "status": one.status, "found": one_line(one.found, _REASON_CHARS), "said": said}


def _percent(share: float) -> str:
    return f"{100 * share:+.1f}%"


def _short(value: float) -> float:
    """Four significant digits: more would be noise, and cost tokens."""
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded.is_integer() else rounded
