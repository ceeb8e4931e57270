"""Tpe: Optuna's tree-structured Parzen estimator, told of crashes and broken promises as constraints."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from optuna.exceptions import ExperimentalWarning
from optuna.samplers import TPESampler

from tools.search.observation import Observation, in_full
from tools.search.problem import Problem
from tools.search.told import asked, study_of
from tools.search.turn import Turn
from tools.targets.knobs import Value

__all__ = ["Tpe"]

_STARTUP_TRIALS = 2
"Below it TPE draws uniformly. What others tried counts too, so that the search starts from what is known."


@dataclass(frozen=True)
class Tpe:
    """Priors first, then TPE over all knobs at once; those that depend on others are modelled where in play."""

    problem: Problem

    @property
    def name(self) -> str:
        return "tpe"

    def ask(self, history: Sequence[Observation]) -> dict[str, Value] | None:
        turn = Turn(self.problem, in_full(history))
        if (prior := next(turn.priors(), None)) is not None:
            return prior
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)  # `group` is meant: knobs depend on others
            sampler = TPESampler(
                seed=turn.seed, n_startup_trials=_STARTUP_TRIALS, multivariate=True, group=True, constant_liar=False
            )
        study = study_of(self.problem, turn.history, sampler, whole=False)
        # What was learned can narrow the draws to configs already tried; uniform draws can't.
        patch = turn.first_of(lambda: asked(self.problem, study, whole=False))
        return patch if patch is not None else turn.at_random()
