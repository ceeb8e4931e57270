"""Packs recorded launches of the bundled engine into the files of `benchmarks/data/surfaces`.

    python -m benchmarks.surfaces.pack --rows FOLDER

One table per scenario (NAME.json.gz, for `load_table`). May be run while the recording goes on: a grid that isn't whole
has fewer rows, and a knob of which one value was recorded is left out.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.surfaces.calm import calm
from benchmarks.surfaces.quality import QUESTIONS, name_of
from benchmarks.surfaces.record import MODEL, rows, tell
from benchmarks.surfaces.scenario import LOADS, SCENARIOS, Scenario
from benchmarks.surfaces.space import BUNDLED, Space
from benchmarks.surfaces.table import Launch, Row, Table, write_table
from tools.errors import UserError
from tools.models import pull
from tools.profile.hardware import hardware
from tools.targets.bundled import BundledTarget
from tools.targets.knobs import KnobSpace, Value

__all__ = ["METRICS", "knobs_of", "packed_rows", "table_of"]

METRICS = (
    "mean_ttft_ms",
    "median_ttft_ms",
    "p95_ttft_ms",
    "mean_tpot_ms",
    "median_tpot_ms",
    "p95_itl_ms",
    "median_e2el_ms",
    "p95_e2el_ms",
    "request_throughput",
    "output_throughput",
    "total_token_throughput",
    "prefix_hit_rate",
)
COMMAND = "taskset -c 1 env OMP_NUM_THREADS=1 python -m benchmarks.surfaces.record --rows FOLDER --limit 60m"


def knobs_of(space: Space, known: KnobSpace, bounds: Mapping[str, tuple[float, float]]) -> KnobSpace:
    """The grid as knobs for a search: numbers within `bounds`, else within their levels; 0 among others is a choice."""
    found = {}
    for name, levels in space.levels.items():
        knob = replace(known[name], default=space.default[name], only_when=space.conditions.get(name))
        numbers = [level for level in levels if not isinstance(level, bool | str)]
        if isinstance(levels[0], bool):
            found[name] = replace(knob, kind="bool", choices=(), low=None, high=None)
        elif len(numbers) == len(levels) and min(numbers) > 0:
            low, high = bounds.get(name, (min(numbers), max(numbers)))
            found[name] = replace(knob, kind="int", choices=(), low=low, high=high, log=True)
        else:
            found[name] = replace(knob, kind="choice", choices=levels, low=None, high=None)
    return KnobSpace(found)


def packed_rows(
    recorded: Iterable[Mapping[str, Any]],
    space: Space,
    scenario: Scenario,
    quality: Callable[[Mapping[str, Value]], float],
    loads: Sequence[str],
) -> tuple[Row, ...]:
    """The rows of `scenario`, cell by cell.

    Args:
        quality: of a cell.
        loads: of every launch, to tell which part of its time this scenario took.
    """
    cells: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in sorted(recorded, key=lambda row: row["number"]):
        cells[json.dumps(row["at"], sort_keys=True)].append(row)
    found = []
    for launches in cells.values():
        at, ran = launches[0]["at"], [row for row in launches if not row["failure"]]
        if ran and len(ran) < len(launches):
            raise UserError(f"{at}: {len(launches) - len(ran)} of {len(launches)} launches failed; record it anew")
        done = tuple(_launch(row, scenario, loads) for row in ran)
        seconds = fmean([each.seconds for each in done] or [row["seconds"] for row in launches])
        failure = None if ran else (launches[0]["failure"][0], launches[0]["failure"][1])
        kept = {name: at[name] for name in space.levels}
        found.append(Row(kept, done, failure, seconds, quality(at)))
    return tuple(found)


def _launch(row: Mapping[str, Any], scenario: Scenario, loads: Sequence[str]) -> Launch:
    others_s = sum(row["windows_s"][load] for load in loads if load not in scenario.loads)
    metrics = {}
    for name in METRICS:
        values = [row["metrics"][load].get(name) for load in scenario.loads]
        if all(value is not None and value > 0 for value in values):
            metrics[name] = math.exp(fmean(math.log(value) for value in values))
    return Launch(metrics, scenario.score(row["metrics"]), row["seconds"] - others_s)


def table_of(
    name: str, scenario: Scenario, recorded: Sequence[Mapping[str, Any]], quality: Mapping[str, float]
) -> Table:
    """The table of one scenario of the bundled engine."""
    digests = {row["playbooks"] for row in recorded}
    if len(digests) != 1:
        raise UserError(f"recorded under {len(digests)} states of the playbooks; expected one")
    when = datetime.fromtimestamp(min(row["when"] for row in recorded), UTC)
    space, known = BUNDLED.within(row["at"] for row in recorded), BundledTarget(pull(MODEL)).knobs
    return Table(
        name=name,
        engine=f"bundled, {MODEL}",
        scenario=scenario.name,
        default=space.default,
        knobs=knobs_of(space, known, {"kv_cache_tokens": (8192, 1_250_000)}),
        rows=packed_rows(recorded, space, scenario, lambda at: quality[name_of(at)], tuple(LOADS)),
        workload={load: LOADS[load].model_dump(mode="json", by_alias=True) for load in scenario.loads},
        hardware=hardware().to_json() | {"used_cores": 1},
        playbooks_digest=digests.pop(),
        recorded={
            "date": when.isoformat(timespec="seconds"),
            "command": COMMAND,
            "quality": f"right answers to {len(QUESTIONS)} questions, relative to the default's",
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, required=True, help="folder of the recorded launches")
    asked = parser.parse_args()
    try:
        everything = rows(asked.rows / "bundled.jsonl")
        recorded = calm(everything)
        measured = json.loads((asked.rows / "quality.json").read_text())["of"]
        quality = {name: each["quality"] for name, each in measured.items()}
        tell(f"{len(everything)} launches, {len(everything) - len(recorded)} left out as disturbed")
        for name, scenario in SCENARIOS.items():
            table = table_of(f"bundled-{name}", scenario, recorded, quality)
            path = write_table(table)
            tell(f"{path}: {len(table.rows)} cells, {path.stat().st_size} bytes")
    except (UserError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
