"""Recording: a surface out of whole measurements of launches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from autotune.report_card.surface import Cell, Machine, Model, Served, Surface
from tools.errors import UserError
from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord
from tools.measure.workload import WorkloadSpec, materialise
from tools.targets.knobs import Value

__all__ = ["Launch", "model_of", "surface_of"]


@dataclass(frozen=True)
class Launch:
    """One launch as the recorder wrote it down: the config's part that the grid varies, and what came of it."""

    at: Mapping[str, Value]
    seed: int
    ready_s: float
    failure: tuple[str, str] | None
    measurement: Measurement | None

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Launch:
        measured, failure = row["measurement"], row["failure"]
        return cls(
            at=row["patch"],
            seed=row["seed"],
            ready_s=row["ready_s"],
            failure=(failure[0], failure[1]) if failure else None,
            measurement=Measurement.from_json(measured) if measured else None,
        )


def surface_of(
    name: str,
    workload: WorkloadSpec,
    machine: Machine,
    model: Model,
    fixed: Mapping[str, Value],
    grid: Mapping[str, Sequence[Value]],
    cells: Iterable[Launch],
    launches: Iterable[Launch],
) -> Surface:
    """The surface that recorded launches make up.

    Raises:
        UserError: a launch lost a request, ran under another workload, or a config of the grid is missing.
    """
    recorded = list(cells)
    places = {tuple(launch.at[knob] for knob in grid) for launch in recorded}
    wanted = 1
    for values in grid.values():
        wanted *= len(values)
    if len(places) != wanted:
        raise UserError(f"surface {name}: expected {wanted} recorded configs, found {len(places)}; go on recording")
    first = next((launch.measurement for launch in recorded if launch.measurement is not None), None)
    if first is None or first.identity_before is None:
        raise UserError(f"surface {name}: no launch was measured")
    words = materialise(workload, first.seed).prompt_words
    extra = [record.prompt_tokens - words[record.index] for record in first.records if record.prompt_tokens]
    chosen = {knob: v for knob, v in first.identity_before.config.items() if knob not in fixed and knob not in grid}
    return Surface(
        name=name,
        workload=workload,
        machine=machine,
        model=model,
        engine=first.identity_before.engine,
        fixed=dict(fixed),
        effective={**chosen, "num_threads": machine.hardware.cores},
        extras=first.extras,
        template_tokens=min(extra),
        grid={knob: tuple(values) for knob, values in grid.items()},
        cells=tuple(_cell(launch, workload) for launch in recorded),
        launches=tuple(_cell(launch, workload) for launch in launches),
    )


def model_of(folder: Path, digest: str) -> Model:
    """The model in `folder` without its weights."""
    generation = folder / "generation_config.json"
    with (folder / "model.safetensors").open("rb") as stream:
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    return Model(
        name=folder.name,
        digest=digest,
        config=json.loads((folder / "config.json").read_text()),
        generation_config=json.loads(generation.read_text()) if generation.is_file() else {},
        header=header,
    )


def _cell(launch: Launch, workload: WorkloadSpec) -> Cell:
    measured = launch.measurement
    if measured is None:
        return Cell(launch.at, launch.seed, launch.ready_s, launch.failure or ("crash", "not recorded"))
    if measured.spec_digest != workload.digest:
        raise UserError(f"{dict(launch.at)}: recorded under another workload than the surface's; record it anew")
    lost = measured.offered - measured.completed
    if lost:
        raise UserError(f"{dict(launch.at)}: {lost} requests weren't answered; record it anew")
    return Cell(
        at=launch.at,
        seed=launch.seed,
        ready_s=launch.ready_s,
        failure=None,
        requests=tuple(_served(record) for record in sorted(measured.records, key=lambda record: record.index)),
        counters_before=measured.counters_before or {},
        preemptions=measured.counted("preemptions") or 0.0,
        cpu_share=measured.client.cpu_share,
    )


def _served(record: RequestRecord) -> Served:
    times = record.token_times_s
    return Served(
        due_s=record.scheduled_s,
        lag_s=record.sent_s - record.scheduled_s,
        first_s=times[0] - record.sent_s,
        gaps_s=tuple(after - before for before, after in pairwise(times)),
        tail_s=record.end_s - times[-1],
        cached_tokens=record.cached_tokens or 0,
    )
