"""Rows `surfaces`, `regret` and `trials_to_best`: strategies against each other on the recorded tables.

The rules of a play are those of `agents_play`. Every figure is a true one, as the table knows it from all launches.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean, geometric_mean, median

from scipy.stats import wilcoxon

from benchmarks.agents_advice import is_bundled
from benchmarks.agents_contestants import OTHERS, OURS
from benchmarks.agents_countdown import counted
from benchmarks.agents_figures import (
    DEFAULT_TRIALS,
    best_speedup,
    exploration,
    headroom_share,
    regret,
    shipped_in_count,
    shipped_in_time,
    speedup,
)
from benchmarks.agents_transcripts import recorded
from benchmarks.peers import Unmeasurable
from benchmarks.surfaces.table import Table, load_table, table_names
from benchmarks.table import Row

__all__ = ["SEEDS", "bundled_tables", "regrets", "surfaces", "trials_to_best"]

SEEDS = 20
QUICK_SEEDS = 2
PLAYERS = (OURS, "guided", *OTHERS)
LLMS = ("llm", "llm-alone")
"They play where transcripts of the LLM are recorded for every table."
QUICK_PLAYERS = (OURS, "random", "tpe")
CAP = 60
"Trials after which a search that hasn't found the best is counted as if it found it then."
NEAR = 0.03
"How near to the exhaustive best counts as there."

LEVEL = 0.05
"Of the test by which a higher regret is more than chance."

_GAIN, _SHARE = 1.05, 0.97


def bundled_tables() -> tuple[str, ...]:
    """The tables of our own engine: InferenceBench's scenarios."""
    return tuple(name for name in table_names() if is_bundled(load_table(name)))


def _check_players(players: Sequence[str]) -> None:
    """
    Raises:
        Unmeasurable: one of them needs a package that isn't installed, so that nobody can be told the best.
    """
    if "smac" in players and importlib.util.find_spec("smac") is None:
        raise Unmeasurable("SMAC3 isn't installed: pip install 'autotune-inference[smac]'")


def _seeds(quick: bool) -> int:
    """As many as AGENTS_SEEDS says, or all: with fewer the figures stand, and the row isn't judged."""
    return QUICK_SEEDS if quick else int(os.environ.get("AGENTS_SEEDS", SEEDS))


def surfaces(quick: bool) -> Row:
    """Final score after the time of 15 default trials, against the best of the others, per scenario."""
    seeds = _seeds(quick)
    players: tuple[str, ...] = QUICK_PLAYERS if quick else PLAYERS
    _check_players(players)
    if not quick and recorded(bundled_tables()):
        players += LLMS
    tables = [load_table(name) for name in bundled_tables()]
    found: dict[tuple[str, str], list[float]] = {}
    for table, name, seed in counted("surfaces", list(product(tables, players, range(seeds)))):
        shipped = shipped_in_time(name, table.name, seed)
        found.setdefault((name, table.name), []).append(speedup(table, shipped.patch))
    others = [name for name in players if name in OTHERS]
    scenarios = [_Scenario(table, {name: found[name, table.name] for name in players}, others) for table in tables]
    sys.stderr.write(_as_text(scenarios, players) + "\n")
    worst = min(scenario.against_others for scenario in scenarios)
    mean = geometric_mean([scenario.against_others for scenario in scenarios])
    share = _aggregate_share(scenarios, OURS)
    return {
        "value": f"{OURS}: at worst {worst:.3f}x the best of the others, {mean:.3f}x on average, "
        f"{share:.1%} of the headroom",
        "goal": f">= 1.0x on each scenario; on average >= {_GAIN}x or >= {_SHARE:.0%} of the headroom",
        "ok": None if seeds < SEEDS else round(worst, 3) >= 1.0 and (mean >= _GAIN or share >= _SHARE),
        "share of the headroom": {name: round(_aggregate_share(scenarios, name), 3) for name in players},
        "left out": {name: "no recorded transcript of an LLM" for name in LLMS if name not in players},
        "seeds": seeds,
        "scenarios": [scenario.told() for scenario in scenarios],
    }


@dataclass(frozen=True)
class _Scenario:
    """One table, and the speed-ups over its default that each player came to, seed by seed."""

    table: Table
    found: dict[str, list[float]]
    others: Sequence[str]

    def speedup(self, name: str) -> float:
        return geometric_mean(self.found[name])

    @property
    def best_of_others(self) -> str:
        return max(self.others, key=self.speedup)

    @property
    def against_others(self) -> float:
        return self.speedup(OURS) / self.speedup(self.best_of_others)

    def share(self, name: str) -> float:
        return headroom_share(self.found[name], best_speedup(self.table))

    def told(self) -> Row:
        best = best_speedup(self.table)
        return {
            "scenario": self.table.name,
            "speed-up": {name: round(self.speedup(name), 3) for name in self.found},
            "against the best of the others": round(self.against_others, 3),
            "who that is": self.best_of_others,
            "headroom over the default": round(best - 1, 3),
            "headroom over random": round(best / self.speedup("random") - 1, 3),
            "share of the headroom": {name: round(self.share(name), 3) for name in self.found},
            "worst seed": {name: round(min(values), 3) for name, values in self.found.items()},
        }


def _aggregate_share(scenarios: Sequence[_Scenario], name: str) -> float:
    """Share of the headroom of all scenarios together: of the geometric mean of their best speed-ups."""
    return headroom_share(
        [scenario.speedup(name) for scenario in scenarios],
        geometric_mean([best_speedup(scenario.table) for scenario in scenarios]),
    )


def _as_text(scenarios: Sequence[_Scenario], players: Sequence[str]) -> str:
    """The table as InferenceBench prints it: methods down, scenarios across, aggregates first."""
    head = ["method", "aggregate", *(scenario.table.name for scenario in scenarios)]
    rows = [["exhaustive", *_cells([best_speedup(scenario.table) for scenario in scenarios])]]
    for name in sorted(players, key=lambda name: -geometric_mean([each.speedup(name) for each in scenarios])):
        rows.append([name, *_cells([scenario.speedup(name) for scenario in scenarios])])
    rows.append(["default", *_cells([1.0 for _ in scenarios])])
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in [head, *rows])


def _cells(values: list[float]) -> list[str]:
    return [f"{value:.2f}x" for value in (geometric_mean(values), *values)]


def regrets(quick: bool) -> Row:
    """Median regret after 15 trials of each strategy on every table, the unseen engines' among them."""
    seeds = _seeds(quick)
    players: tuple[str, ...] = QUICK_PLAYERS if quick else PLAYERS
    _check_players(players)
    found: dict[tuple[str, str], list[float]] = {}
    for table, name, seed in counted("regret", list(product(table_names(), players, range(seeds)))):
        shipped = shipped_in_count(name, table, seed)
        found.setdefault((table, name), []).append(regret(load_table(table), shipped.patch))
    told, good = {}, []
    for table in table_names():
        medians = {name: median(found[table, name]) for name in players}
        ahead = [name for name in players if name in OTHERS and _worse(found[table, OURS], found[table, name])]
        good.append(medians[OURS] <= NEAR and not ahead)
        told[table] = {
            **{name: round(value, 4) for name, value in medians.items()},
            "lowest or tied": not ahead,
            "ahead of ours": ahead,
        }
    worst = max(median(found[table, OURS]) for table in table_names())
    return {
        "value": f"{OURS}: {worst:.1%} at worst over {len(told)} tables, lowest or tied on "
        f"{sum(bool(each['lowest or tied']) for each in told.values())}",
        "goal": f"<= {NEAR:.0%} after {DEFAULT_TRIALS} trials, and the lowest or tied, on each table",
        "ok": None if seeds < SEEDS else all(good),
        "tied means": f"no higher median, or seed by seed not higher by Wilcoxon's signed ranks at {LEVEL:.0%}",
        "seeds": seeds,
        "tables": told,
    }


def _worse(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether our regrets are the higher ones: in the median, and seed by seed beyond chance (one-sided)."""
    if median(ours) <= median(theirs):
        return False
    return bool(wilcoxon(ours, theirs, alternative="greater").pvalue < LEVEL)


def trials_to_best(quick: bool) -> Row:
    """Trials to the first config within 3 % of the exhaustive best, ours against TPE's, one after the other."""
    seeds = _seeds(quick)
    players = (OURS, "guided", "tpe")
    found: dict[tuple[str, str], list[int]] = {}
    for table, name, seed in counted("trials_to_best", list(product(table_names(), players, range(seeds)))):
        found.setdefault((table, name), []).append(_trials_to_best(name, load_table(table), seed))
    means = {key: fmean(values) for key, values in found.items()}
    ratios = {table: means[table, OURS] / means[table, "tpe"] for table in table_names()}
    ratio = geometric_mean(list(ratios.values()))
    return {
        "value": f"{OURS}: {ratio:.2f}x TPE's trials",
        "goal": "<= 0.5x TPE's trials (geometric mean over the tables)",
        "ok": None if seeds < SEEDS else ratio <= 0.5,
        "seeds": seeds,
        "cap": CAP,
        "tables": {
            table: {
                "ratio": round(ratios[table], 3),
                **{f"{name}: mean trials": round(means[table, name], 1) for name in players},
                **{f"{name}: not within the cap": sum(n > CAP for n in found[table, name]) for name in players},
            }
            for table in table_names()
        },
    }


def _trials_to_best(name: str, table: Table, seed: int) -> int:
    """From 1; CAP + 1 where none of CAP trials came so near."""
    goal = (1 - NEAR) * best_speedup(table)
    for number in range(CAP):
        step = exploration(name, table.name, seed).step(number)
        if step is None:
            break
        if step.feasible and speedup(table, step.patch) >= goal:
            return number + 1
    return CAP + 1
