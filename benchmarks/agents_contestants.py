"""Contestants: who plays on a recorded table, and what each knows of it before the first trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.agents_advice import oracle_of, priors_of
from benchmarks.agents_play import BudgetLeft, Exploration, Shipped, Stand, best_seen, ship
from benchmarks.agents_transcripts import Retold, proposals
from benchmarks.surfaces.table import Table
from tools.oracle import CrashOracle
from tools.search import Observation, Prior, Problem, Strategy, reason_to_stop, recommended, strategy, worth_repeating
from tools.targets.knobs import Value

__all__ = ["CONTESTANTS", "OTHERS", "OURS", "Contestant", "problem_of"]

OURS = "expert"
"Whom the goals are about: search with the playbook's priors, as the harness runs it without an LLM."

OTHERS = ("random", "tpe", "smac", "gp")
"Whom it has to beat."

_LLM_PRIORS = 3
"Of an LLM's proposals that the search begins with."


@dataclass(frozen=True)
class Contestant:
    """Who explores, and how it chooses what to ship."""

    strategy: Callable[[Table, int], Strategy]
    "For a table and a seed."
    choose: Callable[[Stand, Sequence[Observation]], Mapping[str, Value]] = lambda stand, seen: best_seen(seen)
    "What to ship, by what was seen."

    def ship(self, exploration: Exploration, budget: BudgetLeft) -> Shipped:
        """Explore to the end of the budget, and choose."""
        return ship(exploration, budget, lambda seen: self.choose(exploration.stand, seen))


def problem_of(table: Stand, seed: int) -> Problem:
    """The search problem that a table poses: what everybody is told."""
    return Problem(
        knobs=table.knobs,
        baseline=table.knobs.resolve(dict(table.default)),
        lower_is_better=False,
        seed=seed,
        noise=table.noise,
    )


def _other(name: str) -> Contestant:
    return Contestant(lambda table, seed: strategy(name, problem_of(table, seed)))


Beliefs = Callable[[Sequence[Observation]], tuple[Prior, ...]]
"What somebody believes after some trials."


@dataclass(frozen=True)
class Ours:
    """Our search as the harness asks it: advised and warned anew each time, by what the trials so far have shown.

    Where nothing more is to be expected of new configs, the best is measured again if it may have been lucky.
    """

    problem: Problem
    oracle: CrashOracle | None = None
    beliefs: Beliefs = lambda history: ()
    name: str = "guided"

    def ask(self, history: Sequence[Observation]) -> dict[str, Value] | None:
        enough = reason_to_stop(self.problem, history) is not None
        if enough and (again := worth_repeating(self.problem, history)) is not None:
            return again
        oracle = self.oracle.after(history, self.problem.baseline) if self.oracle is not None else None
        return strategy("guided", replace(self.problem, oracle=oracle, priors=self.beliefs(history))).ask(history)


def _blind(table: Table, seed: int) -> Strategy:
    """Our search, which knows nothing."""
    return Ours(problem_of(table, seed))


def _guided(table: Table, seed: int) -> Strategy:
    return Ours(problem_of(table, seed), oracle_of(table))


def _expert(table: Table, seed: int) -> Strategy:
    """Advised besides by the playbook of its objective."""
    return Ours(problem_of(table, seed), oracle_of(table), lambda history: priors_of(table, history))


def _llm(table: Table, seed: int) -> Strategy:
    """Advised besides by a small LLM's first proposals."""
    said = tuple(Prior(patch, source="agent") for patch in proposals(table.name, seed)[:_LLM_PRIORS])
    return Ours(problem_of(table, seed), oracle_of(table), lambda history: said)


def _recommended(stand: Stand, seen: Sequence[Observation]) -> Mapping[str, Value]:
    return recommended(problem_of(stand, 0), seen) or {}


CONTESTANTS = {
    **{name: _other(name) for name in OTHERS},
    "blind": Contestant(_blind, _recommended),
    "guided": Contestant(_guided, _recommended),
    "expert": Contestant(_expert, _recommended),
    "llm": Contestant(_llm, _recommended),
    "llm-alone": Contestant(lambda table, seed: Retold(proposals(table.name, seed))),
}
"""By name."""
