"""Figures of plays on recorded tables: speed-ups, headroom and regret, by the table's own truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from statistics import geometric_mean

from benchmarks.agents_contestants import CONTESTANTS
from benchmarks.agents_kept import kept
from benchmarks.agents_play import Exploration, Shipped, by_count, by_seconds
from benchmarks.surfaces.table import Table, load_table
from tools.targets.knobs import Value

__all__ = [
    "DEFAULT_TRIALS",
    "best_speedup",
    "exploration",
    "headroom_share",
    "regret",
    "shipped_in_count",
    "shipped_in_time",
    "speedup",
]

DEFAULT_TRIALS = 15
"Trials of the default whose time is the budget."


@cache
def exploration(name: str, table: str, seed: int) -> Exploration:
    """The exploration of the contestant `name` on the shipped table; made once a process, for all rows."""
    stand = load_table(table)
    return Exploration(stand, kept(CONTESTANTS[name].strategy(stand, seed), name, table, seed), seed)


def shipped_in_time(name: str, table: str, seed: int) -> Shipped:
    """What the contestant ships after the time of 15 default trials, launches included."""
    budget = by_seconds(DEFAULT_TRIALS * load_table(table).row({}).seconds)
    return CONTESTANTS[name].ship(exploration(name, table, seed), budget)


def shipped_in_count(name: str, table: str, seed: int, trials: int = DEFAULT_TRIALS) -> Shipped:
    """What the contestant ships after so many trials, whatever each took."""
    return CONTESTANTS[name].ship(exploration(name, table, seed), by_count(trials))


def speedup(table: Table, patch: Mapping[str, Value]) -> float:
    """True score over the default's; 1 where the config fails: nobody is served by it, so the default is put back."""
    row = table.row({**table.default, **patch})
    return row.truth / table.truth({}) if row.runs else 1.0


def best_speedup(table: Table) -> float:
    """What an exhaustive search would find."""
    return table.best.truth / table.truth({})


def regret(table: Table, patch: Mapping[str, Value]) -> float:
    """Share of the best score that is given away: 0.03 is 3 % slower than it could be."""
    return max(0.0, 1 - speedup(table, patch) / best_speedup(table))


def headroom_share(found: Sequence[float], best: float) -> float:
    """How much of what can be gained over the default was gained: by the geometric mean of speed-ups."""
    return (geometric_mean(found) - 1) / (best - 1) if best > 1 else 1.0
