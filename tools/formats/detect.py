"""Which format a file has, told from what stands in it, and its reading."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.errors import UserError
from tools.formats import aiperf_reader, guidellm_reader, inference_perf_reader, records_file, vllm_reader
from tools.formats.document import json_lines, load_json
from tools.formats.parquet_file import read_parquet
from tools.formats.reading import Reading
from tools.measure.measurement import Measurement

__all__ = ["read"]

_MEASUREMENT = "an object with workload_digest and records"


def read(path: Path, part: int | None = None) -> Reading:
    """The file at `path`, whatever tool wrote it: ours, vLLM, guidellm, aiperf or inference-perf.

    `part` chooses a benchmark of a guidellm report that holds several; no other file has parts.

    Raises:
        UserError: no such file, none of the formats (all that were tried are listed), or one that was cut.
    """
    if path.suffix == ".parquet":
        return _only(path, part, read_parquet(path))
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        return _only(path, part, _read_lines(path))
    document = load_json(path)
    if guidellm_reader.recognises(document):
        return guidellm_reader.read(path, document, part)
    tried = [f"guidellm ({guidellm_reader.LOOKS_LIKE})"]
    for name, looks_like, recognises, reader in _objects(path):
        if recognises(document):
            return _only(path, part, reader(document))
        tried.append(f"{name} ({looks_like})")
    raise _unknown(path, _shape(document), tried)


def _objects(path: Path) -> list[tuple[str, str, Callable[[Any], bool], Callable[[Any], Reading]]]:
    perf = inference_perf_reader
    return [
        ("vllm", vllm_reader.LOOKS_LIKE, vllm_reader.recognises, lambda found: vllm_reader.read(path, found)),
        ("aiperf", aiperf_reader.LOOKS_LIKE, aiperf_reader.recognises, lambda _: aiperf_reader.read(path)),
        ("inference-perf", perf.LOOKS_LIKE, perf.recognises, lambda found: perf.read(path, found)),
        ("inference-perf", perf.LOOKS_LIKE_REQUESTS, perf.recognises_requests, lambda found: perf.read(path, found)),
        ("autotune", _MEASUREMENT, _is_measurement, lambda found: _read_measurement(path, found)),
    ]


def _read_lines(path: Path) -> Reading:
    first = next(json_lines(path), None)
    if records_file.recognises_line(first):
        return records_file.read_records(path)
    if aiperf_reader.recognises_line(first):
        return aiperf_reader.read(path)
    tried = [f"autotune ({records_file.LOOKS_LIKE})", f"aiperf ({aiperf_reader.LOOKS_LIKE_LINES})"]
    raise _unknown(path, f"a first line that is {_shape(first)}", tried)


def _is_measurement(document: Any) -> bool:
    return isinstance(document, dict) and {"workload_digest", "records", "offered"} <= document.keys()


def _read_measurement(path: Path, document: Any) -> Reading:
    try:
        measurement = Measurement.from_json(document)
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: looks like a measurement of autotune, but isn't whole: {error!r}") from None
    return records_file.reading_from_measurement(measurement, source=path.name)


def _only(path: Path, part: int | None, reading: Reading) -> Reading:
    if part not in (None, 0):
        raise UserError(f"{path}: --part {part}: expected a guidellm report, found one part by {reading.tool}")
    return reading


def _shape(document: Any) -> str:
    if isinstance(document, dict):
        return f"an object with {', '.join(sorted(map(str, document))[:8]) or 'nothing in it'}"
    if isinstance(document, list):
        return f"a list of {len(document)}"
    return "nothing" if document is None else f"a {type(document).__name__}"


def _unknown(path: Path, found: str, tried: list[str]) -> UserError:
    return UserError(f"{path}: expected the result of a benchmark, found {found}. Tried: {'; '.join(tried)}")
