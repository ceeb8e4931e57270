"""Records a surface: a launch of every config of a grid under one load, and repeated launches for the noise.

    python -m benchmarks.record_surface chat --part grid --part noise --rows FOLDER [--limit 40m]
    python -m benchmarks.record_surface chat --part pack --part check --rows FOLDER --out FILE.json.gz

`grid` and `noise` launch the bundled engine with SmolLM2-135M on this machine, one JSON line per launch in
FOLDER/NAME-grid.jsonl and FOLDER/NAME-noise.jsonl: whole measurements, about 10 s each. Stopped at any moment, the
same command goes on where it was. The configs come in a shuffled order, so that a machine that slows down doesn't
favour a corner of the grid. `pack` makes the file that `autotune.report_card` ships; it measures the machine's
roofline and the client's floor first (20 s), and keeps the best of all times in FOLDER/NAME-machine.json. Keep the
machine quiet: what else runs on it is recorded too. `check` tells how the repeated launches, under seeds that the grid
wasn't recorded with, compare with what is played for them.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotune.console import duration
from autotune.duration import parse_seconds
from autotune.report_card.noise import CALM
from autotune.report_card.playback import Process, play
from autotune.report_card.recording import Launch, model_of, surface_of
from autotune.report_card.reference import Reference
from autotune.report_card.surface import Machine
from autotune.report_card.surface_file import read_surface, surface_json
from tools.canonical import canonical_json
from tools.errors import UserError
from tools.measure.floor import Floor
from tools.measure.measurement import Measurement
from tools.measure.self_calibration import measure_floor
from tools.measure.summary import summarise
from tools.measure.workload import WorkloadSpec, materialise
from tools.models import pull
from tools.profile.hardware import hardware
from tools.profile.probe import measure_roofline
from tools.profile.roofline import Roofline
from tools.targets.bundled import BundledTarget
from tools.targets.knobs import Value
from tools.trial import run_trial

MODEL = "smollm2-135m"
FIXED: Mapping[str, Value] = {
    "dtype": "bf16",
    "block_size": 16,
    "max_model_len": 1536,
    "long_prefill_token_threshold": 0,
}
GRID_SEED, NOISE_SEED = 7, 1000
ROOFLINES = 6
CHECKED = ("p50_ttft_ms", "p95_ttft_ms", "p95_e2el_ms", "output_throughput")
SAME_SEED = 4
"Launches of each config under one workload seed; then the next seed."


@dataclass(frozen=True)
class Recording:
    """What is to be recorded."""

    workload: WorkloadSpec
    grid: Mapping[str, tuple[Value, ...]]
    noisy: Mapping[str, Mapping[str, Value]]
    "Configs that are launched again and again, by name."
    repeats: int


def _spec(**fields: Any) -> WorkloadSpec:
    return WorkloadSpec.model_validate({"class": "chat", "warmup_requests": 2, "timeout_s": 60, **fields})


def _at(seats: int, budget: int, caching: bool, threads: int, cache: int) -> dict[str, Value]:
    return {
        "max_num_seqs": seats,
        "max_num_batched_tokens": budget,
        "enable_prefix_caching": caching,
        "num_threads": threads,
        "kv_cache_tokens": cache,
    }


RECORDINGS: Mapping[str, Recording] = {
    "chat": Recording(
        _spec(
            requests=32,
            system_prompt_tokens=192,
            prompt_tokens={"min": 16, "max": 64},
            output_tokens={"min": 12, "max": 32},
            arrivals={"kind": "poisson", "rate_rps": 5.0},
        ),
        {
            "max_num_seqs": (1, 2, 4, 8, 16),
            "max_num_batched_tokens": (64, 256, 2048),
            "enable_prefix_caching": (False, True),
            "num_threads": (1, 2),
            "kv_cache_tokens": (2048, 16384),
        },
        {
            "good": _at(8, 256, True, 2, 16384),
            "half": _at(4, 256, True, 2, 16384),
            "poor": _at(2, 2048, False, 1, 16384),
        },
        24,
    ),
    "documents": Recording(
        _spec(
            requests=24,
            system_prompt_tokens=0,
            prompt_tokens={"min": 200, "max": 900},
            output_tokens={"min": 8, "max": 24},
            arrivals={"kind": "closed", "concurrency": 6},
        ),
        {
            "max_num_seqs": (1, 2, 4, 8),
            "max_num_batched_tokens": (64, 256, 2048),
            "enable_prefix_caching": (True,),
            "num_threads": (1, 2),
            "kv_cache_tokens": (2048, 4096, 16384),
        },
        {"good": _at(8, 256, True, 2, 16384), "poor": _at(2, 64, True, 1, 4096)},
        12,
    ),
}


def planned(recording: Recording, part: str) -> Iterator[tuple[str, Mapping[str, Value], int]]:
    """(key, config, workload seed) of every launch, in the order in which they are made."""
    if part == "grid":
        product = itertools.product(*recording.grid.values())
        cells = [dict(zip(recording.grid, values, strict=True)) for values in product]
        random.Random(5).shuffle(cells)
        for cell in cells:
            yield json.dumps(cell), cell, GRID_SEED
        return
    for number in range(recording.repeats):
        for name, at in recording.noisy.items():
            yield f"{name}-{number}", at, NOISE_SEED + number // SAME_SEED


def record(name: str, part: str, folder: Path, until: float) -> None:
    """Make the launches that `folder` doesn't hold yet, up to the moment `until` of the monotonic clock."""
    recording, file = RECORDINGS[name], folder / f"{name}-{part}.jsonl"
    target = BundledTarget(pull(MODEL))
    done = {row["key"] for row in rows(file)}
    todo = [launch for launch in planned(recording, part) if launch[0] not in done]
    began = time.monotonic()
    for number, (key, at, seed) in enumerate(todo):
        if time.monotonic() > until:
            tell(f"{part}: stopped by --limit with {len(todo) - number} launches left; run it again to go on")
            return
        config = target.knobs.resolve({**FIXED, **at})
        started = time.time()
        log = folder / "last-launch.log"
        result = run_trial(target, config, materialise(recording.workload, seed), log=log, ready_timeout_s=60)
        row = {
            "key": key,
            "patch": dict(at),
            "seed": seed,
            "ready_s": result.ready_s,
            "at": started,
            "failure": [result.failure.kind, result.failure.message] if result.failure else None,
            "measurement": result.measurement.to_json() if result.measurement else None,
        }
        with file.open("a") as lines:
            lines.write(json.dumps(row) + "\n")
        left_s = (time.monotonic() - began) / (number + 1) * (len(todo) - number - 1)
        tell(f"{part}: {number + 1} of {len(todo)}, about {duration(left_s)} left ({key})")


def rows(file: Path) -> list[dict[str, Any]]:
    """The launches recorded in `file`; none where it doesn't exist yet."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def pack(name: str, folder: Path, out: Path) -> None:
    """Make the surface's file from the recorded launches.

    Raises:
        UserError: a config of the grid wasn't recorded.
    """
    recording, model = RECORDINGS[name], pull(MODEL)
    tell("measuring the roofline and the client's floor, about 20 s left")
    target = BundledTarget(model)
    step_bytes = target.facts(target.knobs.resolve(FIXED)).step_bytes
    machine = best_machine(folder / f"{name}-machine.json", step_bytes)
    surface = surface_of(
        name,
        recording.workload,
        machine,
        model_of(model, target.model_digest()),
        FIXED,
        recording.grid,
        [Launch.from_json(row) for row in rows(folder / f"{name}-grid.jsonl")],
        [Launch.from_json(row) for row in rows(folder / f"{name}-noise.jsonl")],
    )
    out.write_bytes(gzip.compress(canonical_json(surface_json(surface)), compresslevel=9, mtime=0))
    tell(f"{out}: {len(surface.cells)} configs, {len(surface.launches)} repeated launches, {out.stat().st_size} bytes")


def check(name: str, folder: Path, file: Path) -> None:
    """Tell how the repeated launches compare with what the surface in `file` plays for their workload seeds."""
    surface = read_surface(file)
    reference = Reference(surface)
    ratios: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows(folder / f"{name}-noise.jsonl"):
        if row["measurement"] is None:
            continue
        config = reference.target.knobs.resolve({**surface.fixed, **row["patch"]})
        cell, load = surface.nearest(config), materialise(surface.workload, row["seed"])
        process = Process(1, 0.0, cell.ready_s)
        played = summarise(play(surface, cell, load, config, reference.target.knobs, process, CALM))
        real = summarise(Measurement.from_json(row["measurement"]))
        for metric in CHECKED:
            ratios[row["key"].partition("-")[0]][metric].append(played[metric] / real[metric])
    for config_name, metrics in ratios.items():
        for metric, found in metrics.items():
            low, middle, high = (sorted(found)[int(share * (len(found) - 1))] for share in (0, 0.5, 1))
            told = f"{config_name}: {metric} played / real over {len(found)} launches"
            print(f"{told}: {middle:.3f} ({low:.3f} to {high:.3f})")


def best_machine(file: Path, step_bytes: int) -> Machine:
    """What this machine can do at its best: several measurements now, and what `file` kept of earlier ones.

    A floor that a busy moment raised would call honest launches impossible.
    """
    rooflines = [measure_roofline(step_bytes=step_bytes) for _ in range(ROOFLINES)]
    floors = [measure_floor()]
    if file.is_file():
        earlier = json.loads(file.read_text())
        rooflines.append(Roofline.from_json(earlier["roofline"]))
        floors.append(Floor.from_json(earlier["client_floor"]))
    roofline = replace(
        rooflines[0],
        read_bytes_per_s=max(each.read_bytes_per_s for each in rooflines),
        flops_per_s_bf16=max(each.flops_per_s_bf16 for each in rooflines),
        flops_per_s_fp32=max(each.flops_per_s_fp32 for each in rooflines),
    )
    floor = max(floors, key=lambda each: each.max_chunks_per_s)
    file.write_text(json.dumps({"roofline": roofline.to_json(), "client_floor": floor.to_json()}))
    return Machine(hardware(), roofline, floor)


def tell(text: str) -> None:
    sys.stderr.write(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(RECORDINGS))
    parser.add_argument("--part", action="append", choices=("grid", "noise", "pack", "check"), required=True)
    parser.add_argument("--rows", type=Path, required=True, help="folder of the recorded launches")
    parser.add_argument("--limit", default="60m", help="wall clock for the launches: 90s, 15m")
    parser.add_argument("--out", type=Path, help="file that pack writes and check reads")
    asked = parser.parse_args()
    asked.rows.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + parse_seconds("--limit", asked.limit)
    try:
        for part in asked.part:
            if part in ("grid", "noise"):
                record(asked.name, part, asked.rows, until)
            elif asked.out is None:
                raise UserError(f"--part {part}: expected --out FILE.json.gz, found none")
            else:
                (pack if part == "pack" else check)(asked.name, asked.rows, asked.out)
    except UserError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("interrupted; run it again to go on")


if __name__ == "__main__":
    main()
