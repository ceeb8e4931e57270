"""A surface's file: gzipped JSON, times in whole tenths of a millisecond. The shipped ones are found by name."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from autotune.report_card.surface import Cell, Machine, Model, Served, Surface
from tools.canonical import digest
from tools.errors import UserError
from tools.measure.floor import Floor
from tools.measure.workload import WorkloadSpec
from tools.profile.hardware import Hardware
from tools.profile.roofline import Roofline

__all__ = [
    "FORMAT",
    "load_surface",
    "read_surface",
    "surface_digest",
    "surface_json",
    "surface_names",
    "surface_of_json",
]

FORMAT = 1
"""A reader refuses any other."""

_GRAIN = 1e4
"""Times are kept in tenths of a millisecond, what the client's clock is good for."""


def surface_json(surface: Surface) -> dict[str, Any]:
    """Plain JSON values; `surface_of_json` gives back an equal surface, times to a tenth of a millisecond."""
    return {
        "format": FORMAT,
        "name": surface.name,
        "workload": surface.workload.model_dump(mode="json", by_alias=True, exclude_unset=True),
        "machine": {
            "hardware": surface.machine.hardware.to_json(),
            "roofline": surface.machine.roofline.to_json(),
            "client_floor": surface.machine.client_floor.to_json(),
        },
        "model": {name: getattr(surface.model, name) for name in Model.__dataclass_fields__},
        "engine": surface.engine,
        "fixed": dict(surface.fixed),
        "effective": dict(surface.effective),
        "extras": list(surface.extras),
        "template_tokens": surface.template_tokens,
        "grid": {name: list(values) for name, values in surface.grid.items()},
        "cells": [_cell_json(cell) for cell in surface.cells],
        "launches": [_cell_json(cell) for cell in surface.launches],
    }


def surface_of_json(data: Mapping[str, Any]) -> Surface:
    """The surface that `surface_json` wrote."""
    machine, hardware = data["machine"], data["machine"]["hardware"]
    listed = {name: tuple(hardware[name]) for name in ("cpu_flags", "gpus", "packages")}
    return Surface(
        name=data["name"],
        workload=WorkloadSpec.model_validate(data["workload"]),
        machine=Machine(
            Hardware(**{**hardware, **listed}),
            Roofline.from_json(machine["roofline"]),
            Floor.from_json(machine["client_floor"]),
        ),
        model=Model(**data["model"]),
        engine=data["engine"],
        fixed=data["fixed"],
        effective=data["effective"],
        extras=tuple(data["extras"]),
        template_tokens=data["template_tokens"],
        grid={name: tuple(values) for name, values in data["grid"].items()},
        cells=tuple(_cell(raw) for raw in data["cells"]),
        launches=tuple(_cell(raw) for raw in data["launches"]),
    )


def _cell_json(cell: Cell) -> dict[str, Any]:
    def grains(seconds: float) -> int:
        return round(seconds * _GRAIN)

    return {
        "at": dict(cell.at),
        "seed": cell.seed,
        "ready_s": round(cell.ready_s, 3),
        "failure": list(cell.failure) if cell.failure else None,
        "counters_before": dict(cell.counters_before),
        "preemptions": cell.preemptions,
        "cpu_share": round(cell.cpu_share, 4),
        "requests": [
            [grains(r.due_s), grains(r.lag_s), grains(r.first_s), grains(r.tail_s), r.cached_tokens]
            + [grains(gap) for gap in r.gaps_s]
            for r in cell.requests
        ],
    }


def _cell(raw: Mapping[str, Any]) -> Cell:
    def served(row: list[int]) -> Served:
        due_s, lag_s, first_s, tail_s, _, *gaps_s = (grains / _GRAIN for grains in row)
        return Served(due_s, lag_s, first_s, tuple(gaps_s), tail_s, cached_tokens=row[4])

    return Cell(
        at=raw["at"],
        seed=raw["seed"],
        ready_s=raw["ready_s"],
        failure=(raw["failure"][0], raw["failure"][1]) if raw["failure"] else None,
        requests=tuple(served(row) for row in raw["requests"]),
        counters_before=raw["counters_before"],
        preemptions=raw["preemptions"],
        cpu_share=raw["cpu_share"],
    )


def surface_names() -> list[str]:
    """Names of the surfaces that are shipped."""
    folder = resources.files("autotune.report_card").joinpath("surfaces")
    return sorted(place.name.removesuffix(".json.gz") for place in folder.iterdir() if place.name.endswith(".json.gz"))


@cache
def load_surface(name: str) -> Surface:
    """The shipped surface called `name`.

    Raises:
        UserError: there is none.
    """
    if name not in surface_names():
        raise UserError(f"surface {name!r}: expected one of {', '.join(surface_names())}")
    with resources.as_file(resources.files("autotune.report_card").joinpath("surfaces", f"{name}.json.gz")) as path:
        return read_surface(path)


@cache
def surface_digest(name: str) -> str:
    """sha256 of the shipped surface `name`: results on another recording can't be compared."""
    return digest(surface_json(load_surface(name)))


def read_surface(path: Path) -> Surface:
    """The surface in the file `path`.

    Raises:
        UserError: not such a file, or one of another format.
    """
    try:
        data = json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, ValueError) as error:
        raise UserError(f"{path}: expected a recorded surface (gzipped JSON), found: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise UserError(f"{path}: expected a surface of format {FORMAT}, found {found}; record it anew")
    return surface_of_json(data)
