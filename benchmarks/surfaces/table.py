"""Table: one scenario of one engine over a grid of configs, as recorded; and trials drawn from it in no time."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from benchmarks.surfaces.space import Space
from benchmarks.surfaces.truth import truths
from tools.canonical import canonical_json
from tools.errors import UserError
from tools.targets.knobs import KnobSpace, Value

__all__ = [
    "FOLDER",
    "FORMAT",
    "QUALITY_GATE",
    "Launch",
    "Row",
    "Table",
    "Trial",
    "load_table",
    "table_names",
    "write_table",
]

FOLDER = Path(__file__).resolve().parent.parent / "data" / "surfaces"
FORMAT = 2
"""A reader refuses any other."""
QUALITY_GATE = 0.95
"""InferenceBench's: a config that answers fewer questions right than this share of the default's is infeasible."""
_SUFFIX, _OTHER = ".json.gz", ".surface.json.gz"


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a config that served the scenario's loads."""

    metrics: Mapping[str, float]
    "By flat name; where the scenario has several loads, the geometric mean over them."
    score: float
    "The scenario's own; higher is better."
    seconds: float
    "From launch to stopped, of this scenario alone."


@dataclass(frozen=True, slots=True)
class Row:
    """One config of the grid: launches, or why it doesn't run."""

    at: Mapping[str, Value]
    launches: tuple[Launch, ...]
    failure: tuple[str, str] | None
    "Kind and sentence."
    seconds: float
    "What a trial takes: the mean of its launches, or the time until it was refused."
    quality: float
    "Accuracy relative to the default's."
    estimate: float | None = None
    "Of its true score, by its launches and its neighbours' (`truth.py`); None: not worked out yet."

    @property
    def runs(self) -> bool:
        """Whether it serves, and well enough."""
        return self.failure is None and self.quality >= QUALITY_GATE

    @property
    def mean(self) -> float:
        """Of its launches' scores; nan where there are none."""
        return fmean(launch.score for launch in self.launches) if self.launches else math.nan

    @property
    def truth(self) -> float:
        """What its score comes to over many launches; nan where it doesn't run."""
        return self.mean if self.estimate is None else self.estimate


@dataclass(frozen=True, slots=True)
class Trial:
    """What a search sees of one launch."""

    score: float | None
    "None where it failed."
    metrics: Mapping[str, float]
    seconds: float
    failure: tuple[str, str] | None
    quality: float


@dataclass(frozen=True)
class Table:
    """A recorded surface. Values of knobs are snapped to the nearest that was recorded."""

    name: str
    engine: str
    "Name and version, as it identified itself."
    scenario: str
    default: Mapping[str, Value]
    knobs: KnobSpace
    rows: tuple[Row, ...]
    workload: Mapping[str, Any]
    "What was sent, by load."
    hardware: Mapping[str, Any]
    playbooks_digest: str
    "Of the playbooks that were frozen before anything was recorded."
    recorded: Mapping[str, str]
    "Date and command."

    @cached_property
    def space(self) -> Space:
        """The grid that the rows lie on."""
        levels: dict[str, list[Value]] = {name: [] for name in self.default}
        for row in self.rows:
            for name, value in row.at.items():
                if not any(type(value) is type(level) and value == level for level in levels[name]):
                    levels[name].append(value)
        conditions = {knob.name: knob.only_when for knob in self.knobs if knob.only_when is not None}
        return Space({name: tuple(values) for name, values in levels.items()}, self.default, conditions)

    def row(self, values: Mapping[str, Value]) -> Row:
        """The recorded config that stands for `values`; knobs that it leaves out stand at their default.

        Raises:
            UserError: a knob or a word that this table doesn't have, or a cell that wasn't recorded.
        """
        try:
            return self._by_place[self._place(self.space.snap(values))]
        except KeyError as unknown:
            raise UserError(f"surface {self.name}: {dict(values)}: not recorded: {unknown.args[0]}") from None

    def truth(self, values: Mapping[str, Value]) -> float:
        """The true score of the config that stands for `values`; nan where it doesn't run."""
        return self.row(values).truth

    def trial(self, values: Mapping[str, Value], rng: Random) -> Trial:
        """What one more launch could have given: the config's truth, off by as much as some recorded launch was.

        The metrics are those of one of its launches, brought to that score.
        """
        row = self.row(values)
        if not row.launches:
            return Trial(None, {}, row.seconds, row.failure, row.quality)
        launch = rng.choice(row.launches)
        score = row.truth * rng.choice(self.ratios)
        metrics = {name: _scaled(name, value, score / launch.score) for name, value in launch.metrics.items()}
        if row.quality < QUALITY_GATE:
            sentence = f"answers {row.quality:.3f} as many questions right as the default; at least {QUALITY_GATE} must"
            return Trial(None, metrics, launch.seconds, ("quality", sentence), row.quality)
        return Trial(score, metrics, launch.seconds, None, row.quality)

    @cached_property
    def best(self) -> Row:
        """The row with the highest true score of those that serve well enough."""
        return max((row for row in self.rows if row.runs), key=lambda row: row.truth)

    @cached_property
    def ratios(self) -> tuple[float, ...]:
        """Score of a launch / mean of its config, of every launch whose config was launched again.

        A mean of n launches lies nearer to each of them than the true one does: the distance is made up for by
        sqrt(n / (n - 1)).
        """
        found = []
        for row in self.rows:
            if (count := len(row.launches)) > 1:
                wider = math.sqrt(count / (count - 1))
                found += [1 + (launch.score / row.mean - 1) * wider for launch in row.launches]
        return tuple(found) or (1.0,)

    @property
    def noise(self) -> float:
        """Relative standard deviation of the score between launches of one config."""
        return math.sqrt(fmean((ratio - 1) ** 2 for ratio in self.ratios))

    @cached_property
    def _by_place(self) -> dict[tuple[Value, ...], Row]:
        return {self._place(row.at): row for row in self.rows}

    def _place(self, at: Mapping[str, Value]) -> tuple[Value, ...]:
        return tuple(at[name] for name in self.default)


def _scaled(name: str, value: float, better: float) -> float:
    """`value` of a launch whose score is `better` times as high: rates rise, times fall, the rest stays."""
    if name.endswith("_throughput"):
        return value * better
    return value / better if name.endswith("_ms") else value


def table_names() -> list[str]:
    """Names of the tables that are kept with the benchmarks."""
    names = [path.name for path in FOLDER.glob(f"*{_SUFFIX}") if not path.name.endswith(_OTHER)]
    return sorted(name.removesuffix(_SUFFIX) for name in names)


def load_table(name: str, folder: Path = FOLDER) -> Table:
    """The table called `name`.

    Raises:
        UserError: there is none, or it isn't one.
    """
    path = folder / f"{name}{_SUFFIX}"
    try:
        data = json.loads(gzip.decompress(path.read_bytes()))
    except FileNotFoundError:
        raise UserError(f"surface {name!r}: expected one of {', '.join(table_names())}") from None
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise UserError(f"{path}: expected a recorded table (gzipped JSON), found: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise UserError(f"{path}: expected a table of format {FORMAT}; record it anew")
    try:
        return _table(data)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path}: expected a recorded table, found {type(error).__name__}: {error}") from None


def _table(data: Mapping[str, Any]) -> Table:
    names = data["metrics"]
    return Table(
        name=data["name"],
        engine=data["engine"],
        scenario=data["scenario"],
        default=data["default"],
        knobs=KnobSpace.from_json(data["knobs"]),
        rows=tuple(_row(raw, tuple(data["default"]), names) for raw in data["rows"]),
        workload=data["workload"],
        hardware=data["hardware"],
        playbooks_digest=data["playbooks_digest"],
        recorded=data["recorded"],
    )


def write_table(table: Table, folder: Path = FOLDER) -> Path:
    """Write `table` where `load_table` finds it, its true scores worked out anew.

    Figures have five digits; values and metrics stand without their names.
    """
    table = replace(table, rows=_estimated(table))
    names = sorted({name for row in table.rows for launch in row.launches for name in launch.metrics})
    knobs = sorted(table.default)  # as the JSON has them
    data = {
        "format": FORMAT,
        "name": table.name,
        "engine": table.engine,
        "scenario": table.scenario,
        "default": dict(table.default),
        "knobs": table.knobs.to_json(),
        "metrics": names,
        "rows": [
            {
                "at": [row.at[name] for name in knobs],
                "failure": list(row.failure) if row.failure else None,
                "seconds": _digits(row.seconds),
                "quality": _digits(row.quality),
                "estimate": _digits(row.estimate),
                "launches": [
                    [_digits(each.score), _digits(each.seconds), *(_digits(each.metrics.get(name)) for name in names)]
                    for each in row.launches
                ],
            }
            for row in table.rows
        ],
        "workload": dict(table.workload),
        "hardware": dict(table.hardware),
        "playbooks_digest": table.playbooks_digest,
        "recorded": dict(table.recorded),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{table.name}{_SUFFIX}"
    path.write_bytes(gzip.compress(canonical_json(data), compresslevel=9, mtime=0))
    return path


def _row(raw: Mapping[str, Any], knobs: tuple[str, ...], metrics: list[str]) -> Row:
    launches = []
    for score, seconds, *values in raw["launches"]:
        known = {name: value for name, value in zip(metrics, values, strict=True) if value is not None}
        launches.append(Launch(known, score, seconds))
    failure = (raw["failure"][0], raw["failure"][1]) if raw["failure"] else None
    return Row(
        dict(zip(knobs, raw["at"], strict=True)),
        tuple(launches),
        failure,
        raw["seconds"],
        raw["quality"],
        raw["estimate"],
    )


def _estimated(table: Table) -> tuple[Row, ...]:
    """The rows with their true scores worked out."""
    ran = [row for row in table.rows if row.launches]
    found = truths([row.at for row in ran], [row.mean for row in ran], [len(row.launches) for row in ran], table.noise)
    estimates = {id(row): float(truth) for row, truth in zip(ran, found, strict=True)}
    return tuple(replace(row, estimate=estimates.get(id(row))) for row in table.rows)


def _digits(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
