"""Told: a history in the form that Optuna's samplers learn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, create_trial

from tools.search.observation import Observation
from tools.search.problem import Problem
from tools.targets.knobs import Value

__all__ = ["asked", "study_of"]


def study_of(problem: Problem, history: Sequence[Observation], sampler: BaseSampler, *, whole: bool) -> optuna.Study:
    """A study that has seen `history`. `whole`: trials name knobs that are out of play too, for samplers that need it.

    Infeasible trials are told as complete, with a positive constraint: Optuna leaves failed trials out of its model.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="minimize" if problem.lower_is_better else "maximize", sampler=sampler)
    study.add_trials(_told(problem, history, whole))
    return study


def asked(problem: Problem, study: optuna.Study, *, whole: bool) -> dict[str, Value]:
    """The patch that the study's sampler wants next."""
    space = problem.space
    if whole or all(space.knobs[name].only_when is None for name in space.distributions):
        return space.patch(study.ask(space.distributions).params)
    trial = study.ask()
    point: dict[str, Value] = {}
    for name, distribution in space.distributions.items():
        if name in space.active(point):
            point[name] = _suggested(trial, name, distribution)
    return space.patch(point)


def _told(problem: Problem, history: Sequence[Observation], whole: bool) -> list[FrozenTrial]:
    space = problem.space
    values = [seen.objective for seen in history if seen.objective is not None]
    worst = (max(values) if problem.lower_is_better else min(values)) if values else 0.0
    # A config that can't run has to rank behind one that runs and misses a promise, however widely.
    beyond = 1.0 + sum(max(0.0, *seen.constraints.values()) for seen in history if seen.constraints)
    told = []
    for seen in history:
        if (point := space.point(seen.patch)) is None:
            continue
        names = space.distributions.keys() if whole else space.active(point)
        told.append(
            create_trial(
                params={name: value for name, value in point.items() if name in names},
                distributions={name: one for name, one in space.distributions.items() if name in names},
                value=worst if seen.objective is None else seen.objective,
                constraints={**seen.constraints, "runs": -1.0 if seen.ran else beyond},
            )
        )
    return told


def _suggested(trial: optuna.Trial, name: str, distribution: BaseDistribution) -> Any:
    match distribution:
        case CategoricalDistribution():
            return trial.suggest_categorical(name, distribution.choices)
        case IntDistribution():
            return trial.suggest_int(name, distribution.low, distribution.high, log=distribution.log)
        case FloatDistribution():
            return trial.suggest_float(name, distribution.low, distribution.high, log=distribution.log)
    raise TypeError(f"knob {name}: no way to ask for a {type(distribution).__name__}")
