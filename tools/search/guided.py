"""Guided: this project's own strategy, for few and dear trials of many knobs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.search.candidates import candidates, walked
from tools.search.design import told_by
from tools.search.features import Features
from tools.search.observation import Observation, in_full
from tools.search.outlook import Outlook
from tools.search.problem import Problem
from tools.search.turn import Turn
from tools.targets.knobs import Value

__all__ = ["Guided"]

_THRIFT = 0.5
"Power of a trial's seconds that its worth is divided by: half way between gain per trial and gain per second."

_FIRMNESS = 4.0
"Power of a region's belief at the first trial; it falls as trials speak for themselves."

_DOUBT = 0.9
"Share by which the firmest belief can lower what lies outside its region. Below 1: nothing is ever masked."


@dataclass(frozen=True)
class Guided:
    """Each turn is one of three, in this order:

    1. Exploring, on a fixed share of turns: the config that tells most about all others, whatever was measured and
       believed. The share is spent early, where it is worth most.
    2. A prior that somebody firmly believes in, that wasn't tried yet and that no oracle refuses, the heaviest first.
    3. The config with the greatest expected gain over the best, times the chances that it runs and that it keeps its
       promises, per second that it takes. Regions weigh it as in Hvarfner et al. (2022): less with every trial.
    """

    problem: Problem

    @property
    def name(self) -> str:
        return "guided"

    def ask(self, history: Sequence[Observation]) -> dict[str, Value] | None:
        turn = Turn(self.problem, in_full(history))
        exploring = self.explores(turn.number)
        if not exploring and (prior := next(turn.priors(), None)) is not None:
            return prior
        blind = exploring or not any(seen.ran for seen in turn.history)
        pool = candidates(turn, () if blind else walked(turn))
        if not pool:
            return turn.at_random()
        if blind:
            best = self._best_allowed(turn, pool, self._news(turn, pool))
        else:
            outlook = Outlook(self.problem, turn.history, pool, turn.seed)
            best = self._best_allowed(turn, pool, self._worth(turn, outlook), outlook.runs)
        return best if best is not None else turn.at_random()

    def explores(self, number: int) -> bool:
        """Whether search turn `number`, counted from 0, ignores what was learned and believed."""
        every = int(1 / self.problem.explore_share)
        return number % every == every - 1

    def _news(self, turn: Turn, pool: Sequence[Mapping[str, Value]]) -> NDArray[np.float64]:
        features = Features(self.problem.space)
        tried = features.points([{}, *(seen.patch for seen in turn.history)])
        return told_by(features, features.points(pool), tried, np.random.default_rng(turn.seed))

    def _worth(self, turn: Turn, outlook: Outlook) -> NDArray[np.float64]:
        # While nothing keeps the promises, what most likely does so comes before any gain.
        gain = outlook.improvement if any(seen.kept for seen in turn.history) else np.ones(len(outlook.asked))
        worth: NDArray[np.float64] = gain * outlook.keeps * outlook.runs / outlook.seconds**_THRIFT
        return worth * self._believed(outlook.asked) ** (_FIRMNESS / (1 + turn.number))

    def _best_allowed(
        self,
        turn: Turn,
        pool: Sequence[dict[str, Value]],
        worth: NDArray[np.float64],
        runs: NDArray[np.float64] | None = None,
    ) -> dict[str, Value] | None:
        """The worthiest patch that no oracle refuses; with `runs`, the oracle's own chance counts where it is lower.

        An oracle can only lower a worth, so it is asked about the worthiest first and no further than needed.
        """
        best, most = None, -math.inf
        for place in np.argsort(-worth, kind="stable"):
            if worth[place] <= most:
                break
            patch = pool[int(place)]
            forecast = turn.forecast(patch)
            if forecast is not None and not forecast.feasible:
                continue
            doubt = 1.0 if forecast is None or runs is None else min(1.0, forecast.chance / max(runs[place], 1e-9))
            if worth[place] * doubt > most:
                best, most = patch, float(worth[place] * doubt)
        return best

    def _believed(self, pool: Sequence[Mapping[str, Value]]) -> NDArray[np.float64]:
        """1 where every region holds a config; less for each that doesn't."""
        standing = self.problem.baseline.values
        share = np.ones(len(pool))
        for region in self.problem.regions:
            if region.knob in self.problem.space.distributions:
                held = [region.holds(patch.get(region.knob, standing[region.knob])) for patch in pool]
                share *= np.where(held, 1.0, 1 - _DOUBT * region.weight)
        return share
