"""Raw records as JSON lines: a header with everything but the records, then one record a line; gzip by `.gz`."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any, TypeGuard

import orjson

from tools.errors import UserError
from tools.formats.document import json_lines
from tools.formats.reading import Reading
from tools.formats.records_header import FORMAT, header_of, reading_of
from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord
from tools.whole_file import replaced

__all__ = ["LOOKS_LIKE", "read_records", "reading_from_measurement", "recognises_line", "write_records"]

LOOKS_LIKE = f'lines, the first of them with "format": "{FORMAT}"'


def reading_from_measurement(measurement: Measurement, *, model: str = "", source: str = "") -> Reading:
    """A measurement of our own as a reading: it lacks nothing."""
    identity = measurement.identity_after or measurement.identity_before
    return Reading("autotune", _own_version(), model or (identity.model if identity else ""), source, measurement, None)


def _own_version() -> str:
    try:
        return importlib.metadata.version("autotune-inference")
    except importlib.metadata.PackageNotFoundError:  # run from a folder of sources
        return ""


def write_records(reading: Reading, path: Path) -> None:
    """Write `reading` to `path`, which appears whole or not at all.

    Raises:
        UserError: no requests to write, or the file can't be written.
    """
    measurement = reading.measurement
    if measurement is None:
        raise UserError(f"{reading.source}: expected requests, found aggregates alone, of which no records can be made")
    with replaced(path) as file:
        file.write(orjson.dumps(header_of(reading, measurement), option=orjson.OPT_APPEND_NEWLINE))
        for record in measurement.records:
            file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))


def read_records(path: Path) -> Reading:
    """The reading that `write_records` wrote.

    Raises:
        UserError: another file, or one that was cut or changed.
    """
    lines = json_lines(path)
    header = next(lines, None)
    if not recognises_line(header):
        raise UserError(f"{path}: expected {LOOKS_LIKE}; found something else")
    try:
        return reading_of(header, [RequestRecord.from_json(line) for line in lines])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not whole, or of another version: {error}") from None


def recognises_line(line: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(line, dict) and line.get("format") == FORMAT
