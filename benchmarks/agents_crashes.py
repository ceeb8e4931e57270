"""Row `crashes`: trials lost to configs that don't run, on the tables in which a random draw is lost often."""

from __future__ import annotations

from itertools import product
from statistics import fmean

from benchmarks.agents_contestants import OURS
from benchmarks.agents_countdown import counted
from benchmarks.agents_figures import DEFAULT_TRIALS, exploration
from benchmarks.agents_surfaces import QUICK_SEEDS, SEEDS
from benchmarks.peers import Unmeasurable
from benchmarks.surfaces.table import Table, load_table, table_names
from benchmarks.table import Row

__all__ = ["crashes"]

PLAYERS = (OURS, "guided", "blind", "random", "tpe")
"`blind` is our search without the oracle."
OFTEN, MOST = 0.20, 0.05


def crashes(quick: bool) -> Row:
    """Share of the first 15 trials that are lost, ours against random's."""
    seeds = QUICK_SEEDS if quick else SEEDS
    tables = [name for name in table_names() if failing_share(load_table(name)) >= OFTEN]
    if not tables:
        raise Unmeasurable(f"no recorded table has {OFTEN:.0%} configs that don't run")
    lost: dict[tuple[str, str], float] = {}
    for table, name in counted("crashes", list(product(tables, PLAYERS))):
        lost[table, name] = fmean(_lost(name, table, seed) for seed in range(seeds))
    often = [table for table in tables if lost[table, "random"] >= OFTEN]
    worst = max((lost[table, OURS] for table in often), default=0.0)
    return {
        "value": f"{OURS} loses {worst:.1%} at worst, on {len(often)} tables where random loses >= {OFTEN:.0%}",
        "goal": f"<= {MOST:.0%} of the trials where random loses >= {OFTEN:.0%}",
        "ok": None if quick or not often else worst <= MOST,
        "seeds": seeds,
        "tables": {
            table: {
                "configs that don't run": round(failing_share(load_table(table)), 3),
                **{name: round(lost[table, name], 3) for name in PLAYERS},
            }
            for table in tables
        },
    }


def failing_share(table: Table) -> float:
    """Share of the recorded configs that don't run."""
    return fmean(row.failure is not None for row in table.rows)


def _lost(name: str, table: str, seed: int) -> float:
    """Share of the first trials that failed; one that ran and answered badly isn't lost to a crash."""
    steps = [exploration(name, table, seed).step(number) for number in range(DEFAULT_TRIALS)]
    made = [step for step in steps if step is not None]
    return fmean(step.kind not in ("", "quality") for step in made) if made else 0.0
