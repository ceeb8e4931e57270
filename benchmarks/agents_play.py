"""Plays a strategy on a stand: a recorded table, or the engine itself. The rules are the same for all who play.

1. The default is known: its figures are the first observation of every strategy, and cost nothing; whoever tunes a
   deployment has them. So is the noise: how much launches of one config differ. The default may be shipped too.
2. A trial costs what its launch took, from the start of the process to its end; one that failed costs what it took to
   fail. What a strategy thinks costs nothing. The budget is the time of 15 trials of the default, or 15 trials.
3. A trial that isn't done when the budget ends yields nothing.
4. A config that fails, or whose quality is below 0.95 of the default's, is infeasible to all alike.
5. At the end each ships one config, the default or one that it tried. The others ship the best that they have seen, by
   its one measurement. Ours may spend trials of the same budget on measuring a config again, and ships what its own
   search recommends: the config whose truth is expected to be best, the noise known.
6. What counts is the shipped config's true score, as the table knows it from all recorded launches. One that fails
   counts as the default, 1.00x. The luck of a launch depends on the seed and the config alone, so that who tries the
   same config as another meets the same luck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

from benchmarks.surfaces.table import QUALITY_GATE, Trial
from tools.canonical import digest
from tools.search import Observation, Strategy
from tools.targets.knobs import KnobSpace, Value

__all__ = [
    "BudgetLeft",
    "Choice",
    "Exploration",
    "Shipped",
    "Stand",
    "Step",
    "best_seen",
    "by_count",
    "by_seconds",
    "ship",
]

Choice = Callable[[Sequence[Observation]], Mapping[str, Value]]
"""What to ship, by all that was seen: a patch against the default."""


class Stand(Protocol):
    """What a strategy is played on."""

    @property
    def name(self) -> str: ...

    @property
    def knobs(self) -> KnobSpace: ...

    @property
    def default(self) -> Mapping[str, Value]: ...

    @property
    def noise(self) -> float:
        """Relative standard deviation of the score between launches of one config."""
        ...

    def trial(self, values: Mapping[str, Value], rng: Random) -> Trial: ...


@dataclass(frozen=True, slots=True)
class Step:
    """One trial of an exploration."""

    patch: Mapping[str, Value]
    "Against the default."
    trial: Trial

    @property
    def feasible(self) -> bool:
        return self.trial.failure is None and self.trial.quality >= QUALITY_GATE and self.trial.score is not None

    @property
    def score(self) -> float | None:
        """None where the config is infeasible."""
        return self.trial.score if self.feasible else None

    @property
    def kind(self) -> str:
        """Of the failure; empty where there was none."""
        if self.trial.failure is not None:
            return self.trial.failure[0]
        return "" if self.feasible else "quality"

    @property
    def observation(self) -> Observation:
        return Observation(
            self.patch,
            objective=self.score,
            feasible=self.feasible,
            seconds=self.trial.seconds,
            kind=self.kind,
        )


@dataclass(frozen=True, slots=True)
class BudgetLeft:
    """What may be spent, and what a trial takes of it."""

    limit: float
    cost: Callable[[Trial], float]


def by_seconds(limit_s: float) -> BudgetLeft:
    """Wall clock."""
    return BudgetLeft(limit_s, lambda trial: trial.seconds)


def by_count(trials: int) -> BudgetLeft:
    """Trials, whatever each took."""
    return BudgetLeft(float(trials), lambda trial: 1.0)


@dataclass(frozen=True, slots=True)
class Shipped:
    """What a play ended with."""

    patch: Mapping[str, Value]
    trials: int
    "That were made within the budget."


class Exploration:
    """The trials that one strategy makes on one stand under one seed, made as far as somebody asks.

    A strategy's next trial depends on what it has seen alone, so every budget sees the beginning of the same
    exploration.
    """

    def __init__(self, stand: Stand, strategy: Strategy, seed: int) -> None:
        self.stand = stand
        self.seed = seed
        self._strategy = strategy
        self._steps: list[Step] = []
        self._exhausted = False
        self.default = self._launch({}, ())

    def known(self, trials: int) -> list[Observation]:
        """All that the strategy has seen after so many trials: the default, which it didn't ask for, and they."""
        start = replace(self.default.observation, from_search=False)
        return [start, *(step.observation for step in self._steps[:trials])]

    def steps(self) -> Iterator[Step]:
        """The trials in order, until the space is exhausted."""
        number = 0
        while (step := self.step(number)) is not None:
            yield step
            number += 1

    def step(self, number: int) -> Step | None:
        """The trial of that number, counted from 0; None where the space is exhausted before."""
        while len(self._steps) <= number and not self._exhausted:
            patch = self._strategy.ask(self.known(len(self._steps)))
            if patch is None:
                self._exhausted = True
            else:
                self._steps.append(self._launch(patch, [self.default, *self._steps]))
        return self._steps[number] if number < len(self._steps) else None

    def _launch(self, patch: Mapping[str, Value], before: Sequence[Step]) -> Step:
        """Measure a config after those `before`. Its luck is another one each time."""
        values = {**self.stand.default, **patch}
        times = sum({**self.stand.default, **step.patch} == values for step in before)
        luck = Random(digest([self.stand.name, self.seed, dict(sorted(values.items())), times]))
        return Step(dict(patch), self.stand.trial(values, luck))


def ship(exploration: Exploration, budget: BudgetLeft, choose: Choice) -> Shipped:
    """Explore to the end of the budget, then `choose` by what was seen."""
    spent, trials = 0.0, 0
    for step in exploration.steps():
        spent += budget.cost(step.trial)
        if spent > budget.limit:
            break
        trials += 1
    return Shipped(choose(exploration.known(trials)), trials)


def best_seen(history: Sequence[Observation]) -> Mapping[str, Value]:
    """The patch with the highest score, by its one measurement; the default's where nothing ran."""
    ran = [seen for seen in history if seen.ran]
    return max(ran, key=lambda seen: seen.objective or 0.0).patch if ran else {}
