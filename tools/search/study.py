"""Search: which config to try next, as a pure function of what has been tried."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random

import optuna
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial, create_trial

from tools.canonical import digest
from tools.search.space import SearchSpace
from tools.targets.knobs import Config, KnobSpace, Value

__all__ = ["Observation", "Search"]

_STARTUP_TRIALS = 2
"Below it TPE draws uniformly. A playbook's trials count too, so that the search starts from what is known."

_DRAWS = 64
"Draws before a space is taken for nearly exhausted."

_ENUMERABLE = 20_000
"Configs in the largest space that is worth listing to find the untried rest."


@dataclass(frozen=True, slots=True)
class Observation:
    """One trial as the sampler sees it."""

    patch: Mapping[str, Value]
    "Against the baseline."
    objective: float | None
    "None where nothing was measured: a crash, an OOM, a refusal."
    feasible: bool
    "False: the config can't run or can't be allowed, whatever its figures."
    constraints: Mapping[str, float] = field(default_factory=dict)
    "Violation per promise, relative to its bound: (value - bound) / bound. Zero or less is kept."
    from_search: bool = True
    "False for a trial that a playbook, a person or an LLM asked for; it teaches, and isn't counted as a search turn."


class Search:
    """TPE over the tunable knobs, with an agent's patches as priors and a fixed share of turns drawn at random.

    Priors are tried first and never narrow the space. Every k-th turn (k = 1 / explore_share) ignores all that was
    learned, so that a wrong belief, the agent's or the sampler's, can't hide a region for ever.

    Infeasible trials are told as complete, with a positive constraint: Optuna leaves failed trials out of its model.
    """

    def __init__(
        self,
        knobs: KnobSpace,
        baseline: Config,
        *,
        lower_is_better: bool,
        seed: int,
        explore_share: float = 0.25,
        priors: Sequence[Mapping[str, Value]] = (),
    ) -> None:
        if not 0 < explore_share <= 1:
            raise ValueError(f"explore_share: expected more than 0 and at most 1, found {explore_share}")
        self._space = SearchSpace(knobs, baseline)
        self._direction = "minimize" if lower_is_better else "maximize"
        self._seed = seed
        self._explore_every = int(1 / explore_share)
        self._priors = tuple(self._space.reduce(patch) for patch in priors if self._space.point(patch) is not None)
        optuna.logging.set_verbosity(optuna.logging.WARNING)

    def ask(self, history: Sequence[Observation]) -> dict[str, Value] | None:
        """The next patch against the baseline; None when every config of the space has been tried.

        The same history gives the same answer, in this process or in a later one. A patch that stands in `history`
        is never proposed again, nor is the baseline itself.
        """
        turn = sum(seen.from_search for seen in history)
        tried = {digest(self._space.reduce(seen.patch)) for seen in history} | {digest({})}
        exploring = turn % self._explore_every == self._explore_every - 1
        if not exploring:
            for prior in self._priors:
                if digest(prior) not in tried:
                    return prior
        # What was learned can narrow the draws to configs already tried; uniform draws can't.
        for learned in [False] if exploring else [True, False]:
            study = self._study(history, turn, learned=learned)
            for _ in range(_DRAWS):
                patch = self._space.patch(study.ask(self._space.distributions).params)
                if digest(patch) not in tried:
                    return patch
        return self._untried(tried, turn)

    def _study(self, history: Sequence[Observation], turn: int, *, learned: bool) -> optuna.Study:
        sampler = TPESampler(
            seed=self._derived_seed(turn), n_startup_trials=_STARTUP_TRIALS, multivariate=True, constant_liar=False
        )
        study = optuna.create_study(direction=self._direction, sampler=sampler)
        if learned:
            study.add_trials(self._told(history))
        return study

    def _told(self, history: Sequence[Observation]) -> list[FrozenTrial]:
        values = [seen.objective for seen in history if seen.objective is not None]
        worst = (max(values) if self._direction == "minimize" else min(values)) if values else 0.0
        # A config that can't run has to rank behind one that runs and misses a promise, however widely.
        beyond = 1.0 + sum(max(0.0, *seen.constraints.values()) for seen in history if seen.constraints)
        told = []
        for seen in history:
            if (point := self._space.point(seen.patch)) is None:
                continue
            ran = seen.feasible and seen.objective is not None
            told.append(
                create_trial(
                    params=point,
                    distributions=self._space.distributions,
                    value=worst if seen.objective is None else seen.objective,
                    constraints={**seen.constraints, "runs": -1.0 if ran else beyond},
                )
            )
        return told

    def _untried(self, tried: set[str], turn: int) -> dict[str, Value] | None:
        if self._space.size > _ENUMERABLE:
            return None
        rest = [patch for patch in islice(self._space.every_patch(), _ENUMERABLE) if digest(patch) not in tried]
        return Random(self._derived_seed(turn)).choice(rest) if rest else None

    def _derived_seed(self, turn: int) -> int:
        """32 bits; a turn's draws don't depend on how many draws an earlier turn needed."""
        return int.from_bytes(hashlib.sha256(f"{self._seed}/{turn}".encode()).digest()[:4], "big")
