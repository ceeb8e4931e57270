"""Traffic files: a CSV of rates, counts or arrivals, or the YAML of an autotune workload."""

from __future__ import annotations

import csv
import gzip
import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.capacity.mix import Mix
from tools.capacity.traffic import MOST_CV, Traffic
from tools.errors import UserError
from tools.measure.arrivals import Constant, Gamma, Poisson, Renewal, Replay
from tools.measure.workload import WorkloadSpec
from tools.traces.spec_file import read_spec

__all__ = ["read_traffic"]

_NAMES = {
    "time": ("time", "timestamp", "time_s", "arrived_at"),
    "rate": ("rate_rps", "rate", "rps", "requests_per_second"),
    "count": ("count", "requests"),
    "prompt": ("prompt_tokens", "contexttokens", "context_tokens", "request tokens", "input_length"),
    "output": ("output_tokens", "generatedtokens", "generated_tokens", "response tokens", "output_length"),
}
_EXPECTED = (
    "expected a header with a time column and either rate_rps (requests per second), or count (requests since that "
    "moment, until the next), or neither (one row per request, with prompt_tokens and output_tokens where known)"
)


def read_traffic(path: Path, *, interval_s: float, percentile: float, growth: float) -> Traffic:
    """The day that `path` tells of.

    Args:
        interval_s: length of the intervals to plan for.
        percentile: of the rates seen at one time of day, the one to plan for; 0 to 100.
        growth: every rate is multiplied by it.

    Raises:
        UserError: no such file, or not traffic.
    """
    if path.suffix in (".yaml", ".yml"):
        return _of_workload(read_spec(path).spec, path, interval_s, percentile, growth)
    columns = _read_columns(path)
    times_s = columns["time"]
    keep: dict[str, Any] = {"interval_s": interval_s, "percentile": percentile, "growth": growth, "source": path.name}
    if "rate" in columns:
        return Traffic.of_rates(times_s, columns["rate"], **keep)
    if "count" in columns:
        order = np.argsort(times_s, kind="stable")
        times_s, counts = times_s[order], columns["count"][order]
        if len(times_s) < 2 or (np.diff(times_s) <= 0).any():
            raise UserError(f"{path}: expected at least two different moments for counts, found one twice")
        lengths_s = np.append(np.diff(times_s), np.median(np.diff(times_s)))
        return Traffic.of_rates(times_s + lengths_s / 2, counts / lengths_s, **keep)
    traffic = Traffic.of_arrivals(times_s, **keep)
    if "prompt" not in columns or "output" not in columns:
        return traffic
    prompts, outputs = columns["prompt"].astype(np.int64), columns["output"].astype(np.int64)
    answered = (prompts > 0) & (outputs > 0)  # a failed request has no length, but it came
    if not answered.any():
        raise UserError(f"{path}: expected token counts above 0, found none")
    mix = Mix(prompts[answered], outputs[answered], f"the requests in {path.name}, no prompt cached")
    return replace(traffic, lengths=mix)


def _of_workload(spec: WorkloadSpec, path: Path, interval_s: float, percentile: float, growth: float) -> Traffic:
    arrivals = spec.arrivals
    turns = Mix.of_workload(spec).turns
    match arrivals:
        case Renewal(season=season) if season is not None:
            rate = arrivals.rate_rps * turns
            return Traffic.of_season(rate, season.period_s, season.weights, growth, path.name, _burstiness(arrivals))
        case Renewal() | Poisson() | Constant() | Gamma():
            return Traffic.steady(arrivals.rate_rps * turns, path.name, growth=growth, cv=_burstiness(arrivals))
        case Replay():
            times_s = np.array(arrivals.times_s)
            day = Traffic.of_arrivals(
                (times_s - times_s.min()) / arrivals.speed,
                interval_s=interval_s,
                percentile=percentile,
                growth=growth * turns,
                source=path.name,
            )
            return replace(day, clock_known=False)
    raise UserError(
        f"{path}: arrivals of kind {arrivals.kind} have no rate to plan for; expected poisson, constant, gamma, "
        "renewal or replay"
    )


def _burstiness(arrivals: Constant | Gamma | Poisson | Renewal) -> float:
    """Coefficient of variation of the gaps, the season left out."""
    match arrivals:
        case Constant():
            return 0.0
        case Poisson():
            return 1.0
        case Gamma():
            return arrivals.cv
        case Renewal():
            # Between two quantiles a and b the gaps are uniform: mean (a + b) / 2, mean square (a² + ab + b²) / 3.
            low, high = np.array(arrivals.gaps[:-1]), np.array(arrivals.gaps[1:])
            mean = float((low + high).mean()) / 2
            square = float((low**2 + low * high + high**2).mean()) / 3
            return min(math.sqrt(max(square - mean**2, 0.0)) / mean, MOST_CV)


def _read_columns(path: Path) -> dict[str, NDArray[np.float64]]:
    try:
        with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
            rows = csv.reader(file)
            header = next(rows, [])
            places = _places(header, path)
            values: dict[str, list[float]] = {name: [] for name in places}
            for row in rows:
                if row:
                    _read_row(row, places, values, path, rows.line_num)
    except OSError as error:
        raise UserError(f"{path}: expected a CSV of traffic, but it can't be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: expected a CSV of traffic, found something else: {error}") from None
    if not values["time"]:
        raise UserError(f"{path}: expected rows of traffic, found a header alone")
    return {name: np.array(column) for name, column in values.items()}


def _places(header: list[str], path: Path) -> dict[str, int]:
    lower = [name.strip().lower().removeprefix("\ufeff") for name in header]
    places = {
        name: next(lower.index(alias) for alias in aliases if alias in lower)
        for name, aliases in _NAMES.items()
        if any(alias in lower for alias in aliases)
    }
    if "time" not in places:
        raise UserError(f"{path}: {_EXPECTED}; found the header {','.join(header)[:200]!r}")
    if "rate" in places and "count" in places:
        raise UserError(f"{path}: {_EXPECTED}; found both a rate and a count column")
    return places


def _read_row(row: list[str], places: dict[str, int], values: dict[str, list[float]], path: Path, line: int) -> None:
    for name, place in places.items():
        text = row[place].strip() if place < len(row) else ""
        try:
            value = _moment(text) if name == "time" else float(text or "nan" if name in ("prompt", "output") else text)
        except ValueError:
            expected = "a moment (seconds, or ISO 8601)" if name == "time" else "a number"
            raise UserError(f"{path}, line {line}: expected {expected} for the {name}, found {text!r}") from None
        if name in ("rate", "count", "time") and not (np.isfinite(value) and value >= 0):
            raise UserError(f"{path}, line {line}: expected a finite {name} of at least 0, found {text!r}")
        values[name].append(0.0 if value != value else value)


def _moment(text: str) -> float:
    """Seconds; ISO 8601 without a zone is UTC."""
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
