"""Records the bundled engine: one launch of each cell of `space.BUNDLED` serves the loads of all scenarios.

    taskset -c 1 env OMP_NUM_THREADS=1 python -m benchmarks.surfaces.record --rows FOLDER --limit 55m

One JSON line per launch in FOLDER/bundled.jsonl, raw. Stopped at any moment, the same command goes on where it was.
First every cell once, in a shuffled order; then the default and the best cells of each scenario twice more, and those
that something else disturbed; then others again; then the cells of the slow number format; then more again, as long as
time allows. Engine and client share the core that this process is bound to: keep it quiet, what else runs on it is
recorded too.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.playbook import playbooks_digest
from autotune.console import duration
from autotune.duration import parse_seconds
from benchmarks.surfaces.calm import disturbed
from benchmarks.surfaces.fork import ForkTarget
from benchmarks.surfaces.scenario import LOADS, SCENARIOS
from benchmarks.surfaces.space import BUNDLED
from tools.errors import UserError
from tools.measure.client import drive, warm_up
from tools.measure.measurement import Measurement
from tools.measure.summary import summarise
from tools.measure.workload import materialise
from tools.models import pull
from tools.targets.knobs import Value
from tools.targets.target import LaunchFailed
from tools.trial import launched

__all__ = ["key", "measured", "planned", "rows"]

MODEL = "smollm2-135m"
SEED, SAME_SEED = 100, 2
"Of the first launches of every cell; then the next: what equal requests don't explain is the machine's noise."
TOP = 3
"Best cells of each scenario that are launched again."
REPEATS = 2
AGAIN = 40
"Launches of any cells again that are made before the slow ones."
READY_S = 60.0


def key(at: Mapping[str, Value], number: int) -> str:
    """Names launch `number` of the cell `at`."""
    return f"{json.dumps(dict(at), sort_keys=True)} {number}"


def planned(done: Sequence[Mapping[str, Any]]) -> Iterator[tuple[dict[str, Value], int]]:
    """(cell, number of its launch), in the order in which they are made; `done` grows meanwhile."""
    dealt = random.Random(11)
    cells = list(BUNDLED.cells())
    dealt.shuffle(cells)
    first = [cell for cell in cells if cell["dtype"] == "auto"]
    slow = [cell for cell in cells if cell["dtype"] != "auto"]
    yield from ((cell, 0) for cell in first)
    best = _best(done)
    yield from ((cell, number) for number in range(1, REPEATS + 1) for cell in best)
    yield from [(dict(row["at"]), row["number"] + 1) for row in disturbed(done)]
    failed = {key(row["at"], 0) for row in done if row["failure"]}
    again = [(cell, number) for cell in first for number in range(1, REPEATS + 1) if key(cell, 0) not in failed]
    dealt.shuffle(again)
    yield from again[:AGAIN]
    yield from ((cell, 0) for cell in slow)
    yield from again[AGAIN:]


def _best(done: Sequence[Mapping[str, Any]]) -> list[dict[str, Value]]:
    """The default, and the best cells of each scenario by their first launch."""
    found = [BUNDLED.snap({})]
    ran = [row for row in done if not row["failure"] and row["number"] == 0]
    for each in SCENARIOS.values():
        ran.sort(key=lambda row: -each.score(row["metrics"]))
        found += [dict(row["at"]) for row in ran[:TOP]]
    return [cell for place, cell in enumerate(found) if cell not in found[:place]]


def measured(target: ForkTarget, at: Mapping[str, Value], number: int, log: Path) -> dict[str, Any]:
    """One launch of the cell `at` with all loads, as a JSON row."""
    config = target.knobs.resolve(at)
    seed, began, when = SEED + number // SAME_SEED, time.monotonic(), time.time()
    row: dict[str, Any] = {"key": key(at, number), "at": dict(at), "number": number, "seed": seed, "when": when}
    row |= {"failure": None, "ready_s": 0.0, "warm_s": 0.0, "metrics": {}, "windows_s": {}, "measurements": {}}
    try:
        with launched(target, config, log=log, timeout_s=READY_S) as endpoint:
            row["ready_s"] = endpoint.ready_s
            warming = time.monotonic()
            dialect = warm_up(endpoint, materialise(next(iter(LOADS.values())), seed))
            row["warm_s"] = time.monotonic() - warming
            identity = target.identify(endpoint)
            for name, spec in LOADS.items():
                workload = materialise(spec, seed)
                target.reset_cache(endpoint)
                before = target.counters(endpoint)
                load = drive(endpoint, workload, dialect=dialect)
                found = Measurement.of(
                    workload,
                    load,
                    config_digest=config.digest,
                    identity_before=identity,
                    identity_after=identity,
                    counters_before=before,
                    counters_after=target.counters(endpoint),
                )
                row["metrics"][name] = summarise(found)
                row["windows_s"][name] = found.window_s
                row["measurements"][name] = found.to_json()
    except LaunchFailed as failed:
        row["failure"] = [failed.kind, failed.message]
    row["seconds"] = time.monotonic() - began
    return row


def record(folder: Path, until: float) -> None:
    """Make the launches that `folder` doesn't hold yet, up to the moment `until` of the monotonic clock."""
    file, digest = folder / "bundled.jsonl", playbooks_digest()
    target = ForkTarget(pull(MODEL))
    done = rows(file)
    known = {row["key"] for row in done}
    began, made = time.monotonic(), 0
    for at, number in planned(done):
        if key(at, number) in known:
            continue
        if time.monotonic() > until:
            tell("stopped by --limit; run it again to go on")
            return
        row = {**measured(target, at, number, folder / "last-launch.log"), "playbooks": digest}
        with file.open("a") as lines:
            lines.write(json.dumps(row) + "\n")
        done.append(_slim(row))
        made += 1
        kinds = Counter("runs" if not each["failure"] else each["failure"][0] for each in done)
        pace_s = (time.monotonic() - began) / made
        scores = {name: round(each.score(row["metrics"]), 2) for name, each in SCENARIOS.items() if not row["failure"]}
        told, left = scores or row["failure"], duration(until - time.monotonic())
        tell(f"{len(done)} launches {dict(kinds)}, {pace_s:.1f} s each, {left} left: {row['key']} {told}")


def rows(file: Path) -> list[dict[str, Any]]:
    """The launches recorded in `file` without their raw requests; none where it doesn't exist yet."""
    if not file.is_file():
        return []
    with file.open() as lines:
        return [_slim(json.loads(line)) for line in lines]


def _slim(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "measurements"}


def tell(text: str) -> None:
    sys.stderr.write(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, required=True, help="folder of the recorded launches")
    parser.add_argument("--limit", default="55m", help="wall clock for the launches: 90s, 15m")
    asked = parser.parse_args()
    asked.rows.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        record(asked.rows, time.monotonic() + parse_seconds("--limit", asked.limit))
    except UserError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("interrupted; run it again to go on")


if __name__ == "__main__":
    main()
