"""Outlook: what the trials so far let one expect of configs, tried or not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tools.search.features import Apart, Features
from tools.search.observation import Observation
from tools.search.problem import Problem
from tools.search.surrogate import Belief, Surrogate
from tools.targets.knobs import Value

__all__ = ["Outlook"]

Array = NDArray[np.float64]

_EFFECT, _LENGTH = (0.4, 0.9), (0.7, 0.6)
"Of one knob, in a log score: most move it by little, some by a lot, and neighbouring octaves are alike."

_SCALE = (0.4, 0.5)
_UNKNOWN_NOISE = (0.03, 0.8)
_LEAST_NOISE = 0.005

_RUNS = Belief(scale=(1.0, 0.3), effect=(0.6, 0.8), length=(0.8, 0.6), noise=(0.2, 0.4))
"Of whether a config runs, told as 1 and -1."

_RUNS_AT_FIRST = 0.7
"Prior mean of the same: about four in five run."

_SHARPNESS = 0.05
"Variance added to a prediction of it, before it becomes a chance."

_LEAST_RATIO = 0.01
"Of a value to its bound, so that it has a logarithm."

_SETS, _FEW_SETS = 20, 8
"Of parameters that predictions are averaged over: of the score, and of what only weighs it."


@dataclass(frozen=True)
class Outlook:
    """Expectations for `asked`, a list of patches, after `history`, in which something ran. Draws on `seed` alone.

    Objectives count by their logarithm, so that an effect is a share: knobs multiply each other's more than they add.
    """

    problem: Problem
    history: Sequence[Observation]
    asked: Sequence[Mapping[str, Value]]
    seed: int

    @cached_property
    def improvement(self) -> Array:
        """Expected relative gain of each over the best so far, were it to run and keep its promises; 0.05 = 5 %.

        The best so far is the config of the highest expected truth, not of the luckiest measurement.
        """
        mean, deviation = self._score.predict(self._to_tried.to(self._ran))
        tried = self.expected_of_tried
        kept = [seen.kept for seen in self.history if seen.ran]
        best = (tried[:, kept] if any(kept) else tried).max(axis=1, keepdims=True)
        over = (mean - best) / deviation
        density = np.exp(-0.5 * over**2) / math.sqrt(2 * math.pi)
        gained: Array = (deviation * (over * ndtr(over) + density)).mean(axis=0)
        return gained

    @cached_property
    def runs(self) -> Array:
        """The chance that each runs."""
        labels = np.array([1.0 if seen.ran else -1.0 for seen in self.history]) - _RUNS_AT_FIRST
        model = Surrogate.fit(self._among_tried, labels, _RUNS, self._random(1), sets=_FEW_SETS)
        mean, deviation = model.predict(self._to_tried)
        chance: Array = ndtr((mean + _RUNS_AT_FIRST) / np.sqrt(deviation**2 + _SHARPNESS)).mean(axis=0)
        return chance

    @cached_property
    def keeps(self) -> Array:
        """The chance that each keeps its promises, were it to run."""
        chance = np.ones(len(self.asked))
        for number, name in enumerate(self._promises):
            rows = np.flatnonzero([seen.ran and name in seen.constraints for seen in self.history])
            ratios = [max(1 + self.history[int(row)].constraints[name], _LEAST_RATIO) for row in rows]
            model = self._fit(rows, np.log(ratios), 3 + number)
            mean, deviation = model.predict(self._to_tried.to(rows))
            chance = chance * ndtr((-np.log(ratios).mean() - mean) / deviation).mean(axis=0)
        return chance

    @cached_property
    def seconds(self) -> Array:
        """What a trial of each should take, relative to the mean of those that ran; 1 while that isn't known."""
        taken = np.array([seen.seconds for seen in self.history if seen.ran])
        if len(taken) < 3 or not (taken > 0).all():
            return np.ones(len(self.asked))
        mean, _ = self._fit(self._ran, np.log(taken), 2).predict(self._to_tried.to(self._ran))
        relative: Array = np.exp(mean.mean(axis=0))
        return relative

    @cached_property
    def expected_of_tried(self) -> Array:
        """[sets, configs that ran]: the expected truth of their scores, about the mean of the measured ones."""
        mean, _ = self._score.predict(self._among_tried.among(self._ran))
        return mean

    @cached_property
    def scores(self) -> Array:
        """Of the configs that ran, as measured; higher is better, a difference is a relative one."""
        values = [seen.objective for seen in self.history if seen.ran and seen.objective is not None]
        sign = -1.0 if self.problem.lower_is_better else 1.0
        if all(value > 0 for value in values):
            return sign * np.log(values)
        return sign * np.array(values) / (float(np.mean(np.abs(values))) or 1.0)

    @property
    def noise(self) -> float:
        """Relative standard deviation between launches of one config: as given, else as the trials suggest."""
        return self._score.noise if self.problem.noise is None else self.problem.noise

    @cached_property
    def _ran(self) -> NDArray[np.intp]:
        return np.flatnonzero([seen.ran for seen in self.history])

    @cached_property
    def _promises(self) -> tuple[str, ...]:
        return tuple(sorted({name for seen in self.history if seen.ran for name in seen.constraints}))

    @cached_property
    def _features(self) -> Features:
        return Features(self.problem.space)

    @cached_property
    def _among_tried(self) -> Apart:
        tried = self._features.points([seen.patch for seen in self.history])
        return self._features.apart(tried, tried)

    @cached_property
    def _to_tried(self) -> Apart:
        tried = self._features.points([seen.patch for seen in self.history])
        return self._features.apart(self._features.points(self.asked), tried)

    @cached_property
    def _score(self) -> Surrogate:
        return self._fit(self._ran, self.scores, 0)

    def _fit(self, rows: NDArray[np.intp], values: Array, purpose: int) -> Surrogate:
        """A model of the `values` of some trials, about their mean."""
        known = self.problem.noise if purpose == 0 else None
        noise = _UNKNOWN_NOISE if known is None else (max(known, _LEAST_NOISE), 0.3)
        belief = Belief(_SCALE, _EFFECT, _LENGTH, noise)
        sets = _SETS if purpose == 0 else _FEW_SETS
        return Surrogate.fit(
            self._among_tried.among(rows), values - values.mean(), belief, self._random(purpose), sets=sets
        )

    def _random(self, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, purpose])
