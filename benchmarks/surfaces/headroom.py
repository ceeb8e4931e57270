"""Headroom: what there is to win on a recorded surface, over the default and over what a few random trials find.

python -m benchmarks.surfaces.headroom [NAME ...]
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from random import Random
from statistics import median

from benchmarks.surfaces.table import Table, load_table, table_names
from tools.errors import UserError
from tools.targets.knobs import Knob, Value

__all__ = ["Headroom", "drawn", "headroom"]

TRIALS, SEEDS = 15, 20


@dataclass(frozen=True, slots=True)
class Headroom:
    """Ratios of scores: 1.10 is ten per cent better."""

    over_default: float
    "Best recorded mean / the default's."
    over_random: float
    "Best / the mean of what so many random trials would choose, median over seeds."
    near: float
    "Share of the configs that run that are within 3 % of the best."
    failing: float
    "Share of random configs that don't run, or don't answer well enough."


def headroom(table: Table, trials: int = TRIALS, seeds: int = SEEDS) -> Headroom:
    """What `table` leaves to win. A random search chooses by what it saw, noise and all, and is judged by the mean."""
    best, chosen = table.best.truth, []
    for seed in range(seeds):
        rng = Random(seed)
        seen: list[tuple[float, float]] = []
        for _ in range(trials):
            values = drawn(table, rng)
            trial = table.trial(values, rng)
            if trial.score is not None:
                seen.append((trial.score, table.truth(values)))
        chosen.append(max(seen)[1] if seen else table.truth({}))
    rng = Random(seeds)
    failing = sum(not table.row(drawn(table, rng)).runs for _ in range(2000)) / 2000
    running = [row for row in table.rows if row.runs]
    near = sum(row.truth >= 0.97 * best for row in running) / len(running)
    return Headroom(best / table.truth({}), best / median(chosen), near, failing)


def drawn(table: Table, rng: Random) -> dict[str, Value]:
    """A config drawn evenly from the table's knobs, numbers by their logarithm."""
    return {knob.name: _drawn(knob, rng) for knob in table.knobs}


def _drawn(knob: Knob, rng: Random) -> Value:
    if knob.kind == "bool":
        return rng.random() < 0.5
    if knob.choices:
        return rng.choice(knob.choices)
    assert knob.low is not None and knob.high is not None
    return round(math.exp(rng.uniform(math.log(knob.low), math.log(knob.high))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="surfaces; all by default")
    try:
        for name in parser.parse_args().names or table_names():
            table = load_table(name)
            runs = [row for row in table.rows if row.runs]
            launches = sum(len(row.launches) for row in table.rows)
            left = headroom(table)
            print(
                f"{name}: {len(table.rows)} configs, {len(runs)} run; {launches} launches, noise {table.noise:.1%}; "
                f"random configs that fail {left.failing:.0%}; best over default {left.over_default:.3f}, "
                f"over {TRIALS} random trials {left.over_random:.3f}; within 3 % of it {left.near:.1%} of what runs"
            )
            print(f"  default {table.truth({}):.3f}, best {table.best.truth:.3f} at {dict(table.best.at)}")
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
