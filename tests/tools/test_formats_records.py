"""Raw records: what is written comes back, whole or not at all."""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tools.any_measurement import measurements
from tools.errors import UserError
from tools.formats import Reading, read, read_parquet, read_records, reading_from_measurement, write_parquet
from tools.formats import write_records as write
from tools.measure import Measurement

FILES = Path(__file__).parent / "files"


@given(measurement=measurements, packed=st.booleans())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_every_measurement_comes_back_equal(tmp_path: Path, measurement: Measurement, packed: bool) -> None:
    path = tmp_path / ("r.jsonl.gz" if packed else "r.jsonl")
    reading = reading_from_measurement(measurement, model="m", source="here")
    write(reading, path)
    back = read(path)
    assert _comparable(back) == _comparable(reading)
    assert back.measurement is not None and back.measurement.records == measurement.records
    assert not [other for other in tmp_path.iterdir() if other.name.endswith(".part")]
    path.unlink()


def test_a_foreign_reading_comes_back_with_what_it_lacks_and_its_own_numbers(tmp_path: Path) -> None:
    reading = read(FILES / "guidellm.json")
    write(reading, tmp_path / "g.jsonl")
    back = read(tmp_path / "g.jsonl")
    assert back.to_json() == reading.to_json()
    assert back.ours() == reading.ours() and "mean_itl_ms" not in back.ours()


def test_equal_records_give_equal_bytes_and_gzip_is_told_by_the_suffix(tmp_path: Path) -> None:
    reading = read(FILES / "profile_export.jsonl")
    for name in ("a.jsonl.gz", "b.jsonl.gz", "c.jsonl"):
        write(reading, tmp_path / name)
    packed = (tmp_path / "a.jsonl.gz").read_bytes()
    assert packed == (tmp_path / "b.jsonl.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "c.jsonl").read_bytes()
    first = json.loads((tmp_path / "c.jsonl").read_text().splitlines()[0])
    assert first["records"] == 6 and first["measurement"]["client"]["cpu_share"] is None


def test_a_cut_or_foreign_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write(read(FILES / "profile_export.jsonl"), path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-1]))
    with pytest.raises(UserError, match="5 records, where the header says 6"):
        read_records(path)
    path.write_text("\n".join(lines)[:-40])
    with pytest.raises(UserError, match="line 7: expected a JSON value"):
        read_records(path)
    path.write_text(lines[0].replace('"version":1', '"version":99'))
    with pytest.raises(UserError, match="version 99"):
        read_records(path)
    with pytest.raises(UserError, match="something else"):
        read_records(FILES / "profile_export.jsonl")
    packed = tmp_path / "r.jsonl.gz"
    packed.write_bytes(gzip.compress(b"\n".join(line.encode() for line in lines))[:200])
    with pytest.raises(UserError, match="can't be read"):
        read_records(packed)


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("before")
    with pytest.raises(UserError, match="aggregates alone"):
        write(read(FILES / "vllm_flat.json"), path)
    assert path.read_text() == "before"
    with pytest.raises(UserError, match="can't be written"):
        write(read(FILES / "guidellm.json"), tmp_path / "no" / "r.jsonl")
    assert [other.name for other in tmp_path.iterdir()] == ["r.jsonl"]


def test_the_measurement_that_bench_writes_is_read_too(tmp_path: Path) -> None:
    measurement = read(FILES / "profile_export.jsonl").measurement
    assert measurement is not None
    path = tmp_path / "raw.json"
    data: dict[str, Any] = measurement.to_json() | {"client": {"send_lag_p99_ms": 1.0, "cpu_share": 0.1}}
    path.write_text(json.dumps(data))
    assert read(path).tool == "autotune"
    assert read(path).ours()["mean_tpot_ms"] == pytest.approx(14.141756476190475)
    path.write_text(json.dumps({**data, "records": [{}]}))
    with pytest.raises(UserError, match="isn't whole"):
        read(path)


def test_parquet_comes_back_equal_or_says_what_it_needs(tmp_path: Path) -> None:
    reading = read(FILES / "profile_export.jsonl")
    path = tmp_path / "r.parquet"
    if importlib.util.find_spec("pyarrow") is None:
        with pytest.raises(UserError, match=r"needs pyarrow.*jsonl\.gz instead"):
            write_parquet(reading, path)
        with pytest.raises(UserError, match="needs pyarrow"):
            read_parquet(path)
        return
    write_parquet(reading, path)
    assert _comparable(read(path)) == _comparable(reading)


def _comparable(reading: Reading) -> str:
    assert reading.measurement is not None
    return repr((reading.measurement, reading.tool, reading.model, reading.source, reading.lacks, reading.notes))
