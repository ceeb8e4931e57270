"""Gp: Optuna's Gaussian process with expected improvement, told of crashes and broken promises as constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optuna.samplers import GPSampler

from tools.search.observation import Observation, in_full
from tools.search.problem import Problem
from tools.search.told import asked, study_of
from tools.search.turn import Turn
from tools.targets.knobs import Value

__all__ = ["Gp"]

_STARTUP_TRIALS = 4
"Below it configs are drawn uniformly."

_DRAWS = 3
"Its answers are dear and nearly the same each time; after so many that were tried, one is drawn at random."


@dataclass(frozen=True)
class Gp:
    """Priors first, then the config of the greatest expected improvement that is likely to run and keep its promises.

    Its model needs every knob in every trial, so knobs that are out of play stand at the baseline's values.
    """

    problem: Problem

    @property
    def name(self) -> str:
        return "gp"

    def ask(self, history: Sequence[Observation]) -> dict[str, Value] | None:
        turn = Turn(self.problem, in_full(history))
        if (prior := next(turn.priors(), None)) is not None:
            return prior
        sampler = GPSampler(seed=turn.seed, n_startup_trials=_STARTUP_TRIALS, warn_independent_sampling=False)
        study = study_of(self.problem, turn.history, sampler, whole=True)
        for _ in range(_DRAWS):
            patch = asked(self.problem, study, whole=True)
            if turn.may_try(patch):
                return patch
        return turn.at_random()
