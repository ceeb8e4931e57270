"""Packs recorded launches as a surface that the report card's replay plays through the real graph.

    taskset -c 1 env OMP_NUM_THREADS=1 python -m benchmarks.surfaces.pack_replay LOAD [LOAD ...] --rows FOLDER

LOADs are names of `scenario.LOADS`: a replay plays one load. Each gives a file bundled-LOAD.surface.json.gz
for `autotune.report_card.surface_file.read_surface`: every request of the cells with the model's own number format, and
the repeated launches for the noise. The machine's roofline and the client's floor are measured first, on the core that
the launches had, and the best of all times is kept in FOLDER/machine.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from autotune.report_card.recording import Launch, model_of, surface_of
from autotune.report_card.surface import Machine
from autotune.report_card.surface_file import surface_json
from benchmarks.record_surface import best_machine
from benchmarks.surfaces.calm import calm
from benchmarks.surfaces.record import MODEL, rows, tell
from benchmarks.surfaces.scenario import LOADS
from benchmarks.surfaces.space import BUNDLED
from benchmarks.surfaces.table import FOLDER
from tools.canonical import canonical_json
from tools.errors import UserError
from tools.models import pull
from tools.targets.bundled import BundledTarget

__all__ = ["pack_replay"]


def pack_replay(load: str, folder: Path, machine: Machine, out: Path) -> None:
    """Write the surface of `load` from the launches in `folder`.

    Raises:
        UserError: a cell wasn't recorded, or a request wasn't answered.
    """
    file, model = folder / "bundled.jsonl", pull(MODEL)
    kept = {row["key"] for row in calm(rows(file)) if row["at"]["dtype"] == "auto"}
    space = BUNDLED.within(cell for cell in BUNDLED.cells() if cell["dtype"] == "auto")
    launches = [_launch(row, load, tuple(space.levels)) for row in _raw(file) if row["key"] in kept]
    first = {json.dumps(dict(launch.at), sort_keys=True): launch for launch in reversed(launches)}
    again = [json.dumps(dict(launch.at), sort_keys=True) for launch in launches]
    surface = surface_of(
        f"bundled-{load}",
        LOADS[load],
        machine,
        model_of(model, BundledTarget(model).model_digest()),
        {},
        space.levels,
        first.values(),
        [launch for launch, at in zip(launches, again, strict=True) if again.count(at) > 1],
    )
    # The launches were bound to one core.
    surface = replace(surface, effective={**surface.effective, "num_threads": 1})
    out.write_bytes(gzip.compress(canonical_json(surface_json(surface)), compresslevel=9, mtime=0))
    tell(f"{out}: {len(surface.cells)} configs, {len(surface.launches)} repeated launches, {out.stat().st_size} bytes")


def _raw(file: Path) -> Iterator[Mapping[str, Any]]:
    with file.open() as lines:
        for line in lines:
            yield json.loads(line)


def _launch(row: Mapping[str, Any], load: str, knobs: tuple[str, ...]) -> Launch:
    return Launch.from_json(
        {
            "patch": {name: row["at"][name] for name in knobs},
            "seed": row["seed"],
            "ready_s": row["ready_s"] or row["seconds"],
            "failure": row["failure"],
            "measurement": row["measurements"].get(load),
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loads", nargs="+", choices=sorted(LOADS))
    parser.add_argument("--rows", type=Path, required=True, help="folder of the recorded launches")
    asked = parser.parse_args()
    try:
        tell("measuring the roofline and the client's floor, about 20 s left")
        target = BundledTarget(pull(MODEL))
        machine = best_machine(asked.rows / "machine.json", target.facts(target.knobs.resolve({})).step_bytes)
        for load in asked.loads:
            pack_replay(load, asked.rows, machine, FOLDER / f"bundled-{load}.surface.json.gz")
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
