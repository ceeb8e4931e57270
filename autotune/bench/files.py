"""Files: what `bench` writes, the raw records of each trial and the page with the pictures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from autotune.bench.result import Bench
from autotune.pages import bench_page
from tools import formats
from tools.errors import UserError
from tools.measure.measurement import Measurement
from tools.whole_file import replaced

__all__ = ["Files"]

_SUFFIXES = (".jsonl.gz", ".jsonl", ".json", ".parquet")


@dataclass(frozen=True)
class Files:
    """The files that were asked for. Whether they can be written is found out before anything is measured."""

    out: Path | None
    page: Path | None

    @classmethod
    def asked(cls, out: Path | None, page: Path | None) -> Files:
        """As the options name them.

        Raises:
            UserError: they can't be written.
        """
        for path in (out, page):
            if path is not None and not path.absolute().parent.is_dir():
                raise UserError(f"{path}: expected a folder to write to, found none at {path.absolute().parent}")
            if path is not None and path.is_dir():
                raise UserError(f"{path}: expected the name of a file, found a folder")
        if out is not None and not out.name.endswith(_SUFFIXES):
            raise UserError(f"--out {out}: expected a name that ends in {', '.join(_SUFFIXES)}")
        if out is not None and out.suffix == ".parquet" and find_spec("pyarrow") is None:
            raise UserError(
                f"--out {out}: writing Parquet needs pyarrow: install the extra `parquet`, or name a .jsonl.gz"
            )
        return cls(out, page)

    def write(self, found: Bench) -> None:
        """Each file whole or not at all; of several trials each its own: `name.1.jsonl`, `name.2.jsonl`."""
        if self.out is not None:
            several = len(found.trials) > 1
            for number, trial in enumerate(found.trials, start=1):
                _write_records(trial.measurement, _numbered(self.out, number) if several else self.out)
        if self.page is not None:
            with replaced(self.page) as file:
                file.write(bench_page(found.page_json(), found.shown.measurement).encode())


def _numbered(path: Path, number: int) -> Path:
    suffix = next(suffix for suffix in _SUFFIXES if path.name.endswith(suffix))
    return path.with_name(f"{path.name.removesuffix(suffix)}.{number}{suffix}")


def _write_records(measurement: Measurement, path: Path) -> None:
    if path.suffix == ".json":
        with replaced(path) as file:
            file.write(json.dumps(measurement.to_json()).encode())
        return
    reading = formats.reading_from_measurement(measurement, source=str(path))
    (formats.write_parquet if path.suffix == ".parquet" else formats.write_records)(reading, path)
