"""What an honest server says to the evals, by hand; each test changes one word of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import log

from tools.evals.agreement import GreedyOutputs
from tools.evals.results import Answer, Conduct, EvalResults, Passage, TaskResult
from verifiers import Evidence

__all__ = ["PROMPTS", "SCORES", "altered", "honest_evals", "passage", "with_scores"]

SUITE = "s" * 64
PROMPTS = {f"p{i}": tuple(range(i, i + 16)) for i in range(8)}
SCORES: Mapping[str, Mapping[str, float]] = {
    "arithmetic": {f"sum-{i}": float(i < 8) for i in range(10)},
    "instructions": {f"form-{i}": 0.5 for i in range(6)},
    "extraction": {f"fact-{i}": 1.0 for i in range(4)},
    "schemas": {"enum": 1.0, "boolean": 1.0, "nested": 0.0},
    "tools": {"call": 1.0},
    "needle": {"eighth": 1.0, "whole": 1.0},
}
"""Every launch scores the same; of the forms one isn't kept, as by a model that never ends its object."""


def passage(likely: float, *, places: int = 20) -> Passage:
    """At each place the word itself with probability `likely` and another with half of what is left."""
    top = {"word": log(likely), "other": log((1 - likely) / 2)}
    return Passage(("word",) * places, (log(likely),) * places, (top,) * places)


def honest_evals(launch: int) -> EvalResults:
    """Of one launch; its sampled answers and its times are its own."""
    draw = random.Random(launch)
    answers = tuple((draw.choice((5, 5, 6, 7)), draw.choice((8, 9))) for _ in range(24))
    ours = tuple(0.1 + 0.01 * draw.random() for _ in range(6))
    tasks = {
        name: TaskResult({item: Answer(score, "said", "stop", 100 + len(item)) for item, score in items.items()})
        for name, items in SCORES.items()
    }
    return EvalResults(
        SUITE,
        GreedyOutputs(PROMPTS),
        passages={"harbour": passage(0.6), "bread": passage(0.3)},
        tasks=tasks,
        defaults={"d": answers},
        default_nats={"d": tuple(-0.5 * sum(ids) for ids in answers)},
        conduct=Conduct(ours, tuple(seconds * (1 + 0.05 * draw.random()) for seconds in ours)),
    )


def altered(evidence: Evidence, change: Callable[[EvalResults], EvalResults], *, arms: str = "B") -> Evidence:
    """The evidence in which what the launches of `arms` said is changed."""
    trials = tuple(
        replace(trial, evals=change(trial.evals)) if trial.evals is not None and trial.arm in arms else trial
        for trial in evidence.trials
    )
    return evidence.about(trials)


def with_scores(name: str, **scores: float) -> Callable[[EvalResults], EvalResults]:
    """Changes some scores of a task set; `_` in an item's name stands for `-`."""

    def change(evals: EvalResults) -> EvalResults:
        answers = dict(evals.tasks[name].answers)
        for item, score in scores.items():
            place = item.replace("_", "-")
            answers[place] = replace(answers[place], score=score)
        return replace(evals, tasks={**evals.tasks, name: TaskResult(answers)})

    return change
