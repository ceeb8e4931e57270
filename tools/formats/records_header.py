"""RecordsHeader: everything of a reading but its records, as plain JSON. The first line of a records file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tools.formats.reading import ForeignSummary, Reading
from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord

__all__ = ["FORMAT", "header_of", "reading_of"]

FORMAT = "autotune-records"
_VERSION = 1
_OF_THE_CLIENT = ("send_lag_p99_ms", "cpu_share")
"What a foreign file may not tell of the client that wrote it: NaN in a reading, null in a file."


def header_of(reading: Reading, measurement: Measurement) -> dict[str, Any]:
    """What `reading_of` needs beside the records. A NaN (not told) is null."""
    data = replace(measurement, records=()).to_json()
    del data["records"]
    theirs = reading.theirs
    return {
        "format": FORMAT,
        "version": _VERSION,
        "records": len(measurement.records),
        "tool": reading.tool,
        "tool_version": reading.version,
        "model": reading.model,
        "source": reading.source,
        "lacks": sorted(reading.lacks),
        "notes": list(reading.notes),
        "theirs": {"metrics": dict(theirs.metrics), "notes": dict(theirs.notes)} if theirs is not None else None,
        "measurement": {
            **data,
            "started_at": _null(data["started_at"]),
            "client": {**data["client"], **{name: _null(data["client"][name]) for name in _OF_THE_CLIENT}},
        },
    }


def reading_of(header: Mapping[str, Any], records: Sequence[RequestRecord]) -> Reading:
    """The reading that `header_of` described, with its records.

    Raises:
        KeyError, TypeError, ValueError: not such a header, or not as many records as it says.
    """
    if header["version"] != _VERSION:
        raise ValueError(f"version {header['version']}, where {_VERSION} was expected")
    if header["records"] != len(records):
        raise ValueError(f"{len(records)} records, where the header says {header['records']}")
    data = header["measurement"]
    measurement = Measurement.from_json(
        {
            **data,
            "records": [],
            "started_at": _nan(data["started_at"]),
            "client": {**data["client"], **{name: _nan(data["client"][name]) for name in _OF_THE_CLIENT}},
        }
    )
    theirs = header["theirs"]
    return Reading(
        tool=header["tool"],
        version=header["tool_version"],
        model=header["model"],
        source=header["source"],
        measurement=replace(measurement, records=tuple(records)),
        theirs=ForeignSummary(theirs["metrics"], theirs["notes"]) if theirs is not None else None,
        lacks=frozenset(header["lacks"]),
        notes=tuple(header["notes"]),
    )


def _null(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _nan(value: Any) -> Any:
    return math.nan if value is None else value
