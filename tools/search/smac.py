"""Smac: SMAC3's random forest with expected improvement; an optional extra."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from tools.errors import UserError
from tools.search.observation import Observation, in_full
from tools.search.problem import Problem
from tools.search.turn import Turn
from tools.targets.knobs import Value

if TYPE_CHECKING:
    from ConfigSpace import Configuration, ConfigurationSpace
    from smac import HyperparameterOptimizationFacade

__all__ = ["Smac"]

_TRIALS = 20
"Of the run that SMAC plans for; a quarter of them are its Sobol design."

_DRAWS = 8


@dataclass(frozen=True)
class Smac:
    """Priors first, then SMAC's own facade for noisy black boxes, which is made anew and told everything each time.

    SMAC has no constraints: a config that breaks a promise is told as costing more than all that kept theirs, one
    that crashed as costing more still.
    """

    problem: Problem

    def __post_init__(self) -> None:
        if find_spec("smac") is None:
            raise UserError(
                "strategy 'smac': expected the package smac, found none; pip install 'autotune-inference[smac]'"
            )

    @property
    def name(self) -> str:
        return "smac"

    def ask(self, history: Sequence[Observation]) -> dict[str, Value] | None:
        turn = Turn(self.problem, in_full(history))
        if (prior := next(turn.priors(), None)) is not None:
            return prior
        with tempfile.TemporaryDirectory(prefix="smac-") as folder:
            facade, space = self._facade(Path(folder))
            self._tell(facade, space, turn.history)
            for _ in range(_DRAWS):
                try:
                    info = facade.ask()
                except StopIteration:
                    break
                patch = self.problem.space.patch(_plain(info.config))
                if turn.may_try(patch):
                    return patch
        return turn.at_random()

    def _facade(self, folder: Path) -> tuple[HyperparameterOptimizationFacade, ConfigurationSpace]:
        from smac import HyperparameterOptimizationFacade, Scenario

        logging.getLogger("smac").setLevel(logging.WARNING)
        space = _config_space(self.problem)
        seed = self.problem.seed % 2**32
        scenario = Scenario(space, output_directory=folder, deterministic=True, n_trials=_TRIALS, seed=seed)
        facade = HyperparameterOptimizationFacade(scenario, _never, overwrite=True, logging_level=logging.WARNING)
        return facade, space

    def _tell(
        self, facade: HyperparameterOptimizationFacade, space: ConfigurationSpace, history: Sequence[Observation]
    ) -> None:
        from ConfigSpace import Configuration
        from smac.runhistory.dataclasses import TrialInfo, TrialValue

        costs = _costs(history, self.problem.lower_is_better)
        for seen, cost in zip(history, costs, strict=True):
            if (point := self.problem.space.point(seen.patch)) is None:
                continue
            active = self.problem.space.active(point)
            config = Configuration(space, {name: _encoded(value) for name, value in point.items() if name in active})
            facade.tell(TrialInfo(config, seed=0), TrialValue(cost, time=seen.seconds), save=False)


def _costs(history: Sequence[Observation], lower_is_better: bool) -> list[float]:
    """One cost per observation: lower is better, every kept promise before every broken one, those before crashes."""
    sign = 1.0 if lower_is_better else -1.0
    kept = [sign * seen.objective for seen in history if seen.kept and seen.objective is not None]
    low, high = (min(kept), max(kept)) if kept else (0.0, 0.0)
    step = (high - low) or abs(high) or 1.0
    costs = []
    for seen in history:
        if seen.kept and seen.objective is not None:
            costs.append(sign * seen.objective)
        elif seen.ran:
            missed = sum(max(0.0, violation) for violation in seen.constraints.values())
            costs.append(high + step * missed / (1 + missed))
        else:
            costs.append(high + step)
    return costs


def _config_space(problem: Problem) -> ConfigurationSpace:
    from ConfigSpace import Categorical, ConfigurationSpace, Float, InCondition, Integer

    space = ConfigurationSpace()
    for name, distribution in problem.space.distributions.items():
        match distribution:
            case CategoricalDistribution():
                space.add(Categorical(name, [_encoded(choice) for choice in distribution.choices]))
            case IntDistribution(low=low, high=high, log=log) if low < high:
                space.add(Integer(name, (low, high), log=log))
            case FloatDistribution(low=low, high=high, log=log) if low < high:
                space.add(Float(name, (low, high), log=log))
            case IntDistribution(low=low) | FloatDistribution(low=low):
                space.add(Categorical(name, [low]))
    for name in problem.space.distributions:
        condition = problem.knobs[name].only_when
        if condition is not None and condition[0] in problem.space.distributions:
            parent, values = condition
            space.add(InCondition(space[name], space[parent], [_encoded(value) for value in values]))
    return space


def _encoded(value: Value) -> Value:
    """Booleans as words: ConfigSpace takes True and 1 for the same."""
    return ("true" if value else "false") if isinstance(value, bool) else value


def _plain(config: Configuration) -> Mapping[str, Value]:
    return {name: _decoded(value) for name, value in dict(config).items()}


def _decoded(value: Any) -> Value:
    """A Python value again, where numpy has made one of its own of it."""
    plain: Value = value.item() if hasattr(value, "item") else value
    return plain == "true" if plain in ("true", "false") else plain


def _never(config: Configuration, seed: int = 0) -> float:
    raise AssertionError("trials are made by the harness, never by SMAC")
