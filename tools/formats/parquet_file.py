"""Raw records as Parquet: one row a request, the header of `records_header.py` as the file's metadata.

Needs pyarrow (the optional extra `parquet`).
"""

from __future__ import annotations

import importlib
from dataclasses import fields
from pathlib import Path
from typing import Any

import orjson

from tools.errors import UserError
from tools.formats.reading import Reading
from tools.formats.records_header import FORMAT, header_of, reading_of
from tools.measure.records import RequestRecord
from tools.whole_file import replaced

__all__ = ["read_parquet", "write_parquet"]

_KEY = FORMAT.encode()


def write_parquet(reading: Reading, path: Path) -> None:
    """Write `reading` to `path`, which appears whole or not at all.

    Raises:
        UserError: pyarrow isn't there; no requests to write; the file can't be written.
    """
    arrow, parquet = _pyarrow()
    measurement = reading.measurement
    if measurement is None:
        raise UserError(f"{reading.source}: expected requests, found aggregates alone, of which no records can be made")
    columns = {
        field.name: arrow.array(
            [getattr(record, field.name) for record in measurement.records], type=_type(arrow, str(field.type))
        )
        for field in fields(RequestRecord)
    }
    table = arrow.table(columns).replace_schema_metadata({_KEY: orjson.dumps(header_of(reading, measurement))})
    with replaced(path) as file:
        parquet.write_table(table, file, compression="zstd")


def read_parquet(path: Path) -> Reading:
    """The reading that `write_parquet` wrote.

    Raises:
        UserError: pyarrow isn't there; no such file; another file.
    """
    arrow, parquet = _pyarrow()
    try:
        table = parquet.read_table(path)
    except (OSError, arrow.ArrowInvalid) as error:
        raise UserError(f"{path}: can't be read as Parquet: {error}") from None
    metadata = table.schema.metadata or {}
    if _KEY not in metadata:
        raise UserError(f"{path}: expected records written by autotune, found another Parquet file")
    try:
        return reading_of(orjson.loads(metadata[_KEY]), [RequestRecord.from_json(row) for row in table.to_pylist()])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not whole, or of another version: {error}") from None


def _type(arrow: Any, annotation: str) -> Any:
    """The Arrow type of a field of RequestRecord: `tuple[float, ...]`, `int | None`, `Outcome` ..."""
    if annotation.startswith("tuple["):
        return arrow.list_(_type(arrow, annotation.removeprefix("tuple[").split(",")[0]))
    scalars = {"int": arrow.int64(), "float": arrow.float64()}
    return scalars.get(annotation.split(" | ")[0], arrow.string())


def _pyarrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UserError(
            "Parquet needs pyarrow, which isn't installed: pip install 'autotune[parquet]', or write .jsonl.gz instead"
        ) from None
