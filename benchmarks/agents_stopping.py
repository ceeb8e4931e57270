"""Row `stopping`: whether the search's reason to stop comes in time, and what is lost by listening to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean, median

from benchmarks.agents_contestants import OURS, problem_of
from benchmarks.agents_countdown import counted
from benchmarks.agents_figures import exploration, regret
from benchmarks.agents_play import Exploration, Step
from benchmarks.agents_surfaces import SEEDS
from benchmarks.surfaces.table import Table, load_table, table_names
from benchmarks.table import Row
from tools.search import reason_to_stop

__all__ = ["stopping"]

TRIALS = 40
"Of the exploration that is cut short."
LOST = 0.03
MIN_EFFECT = 0.03
"Least gain worth having, as the search is told it."


def stopping(quick: bool) -> Row:
    """Regret where the search stops by itself, against the regret after 40 trials."""
    seeds = 1 if quick else SEEDS
    stops: list[int] = []
    lost: list[float] = []
    told: dict[str, Row] = {}
    for name, seed in counted("stopping", list(product(table_names(), range(seeds)))):
        table, explored = load_table(name), exploration(OURS, name, seed)
        steps = [step for number in range(TRIALS) if (step := explored.step(number)) is not None]
        stop = _stop(table, explored, seed, len(steps))
        stops.append(stop)
        lost.append(_regret(table, explored, steps[:stop]) - _regret(table, explored, steps))
        told.setdefault(name, {"stops": [], "lost": []})
        told[name]["stops"].append(stop)
        told[name]["lost"].append(round(lost[-1], 4))
    kept = fmean(value <= LOST for value in lost)
    early = fmean(stop < TRIALS for stop in stops)
    return {
        "value": f"{early:.0%} of the runs stop by themselves, after {median(stops):.0f} of {TRIALS} trials (median); "
        f"{kept:.0%} lose at most {LOST:.0%} by it",
        "goal": f">= 50 % stop by themselves, and >= 90 % lose at most {LOST:.0%} against {TRIALS} trials",
        "ok": None if quick else early >= 0.5 and kept >= 0.9,
        "seeds": seeds,
        "tables": {
            name: {
                "median trials": median(each["stops"]),
                "mean loss": round(fmean(each["lost"]), 4),
                "worst loss": max(each["lost"]),
            }
            for name, each in told.items()
        },
    }


def _stop(table: Table, explored: Exploration, seed: int, trials: int) -> int:
    """The number of trials after which the search says that it is enough; all of them where it never does."""
    problem = replace(problem_of(table, seed), min_effect=MIN_EFFECT)
    return next((number for number in range(1, trials) if reason_to_stop(problem, explored.known(number))), trials)


def _regret(table: Table, explored: Exploration, steps: Sequence[Step]) -> float:
    """Of the best that was seen, the default among it."""
    seen = [step for step in (explored.default, *steps) if step.score is not None]
    best = max(seen, key=lambda step: step.score or 0.0, default=explored.default)
    return regret(table, best.patch)
