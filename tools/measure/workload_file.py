"""A concrete workload as a file: JSON lines, a header with spec and seed, then its requests, the warm-up's first."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson
from pydantic import ValidationError

from tools.errors import UserError
from tools.measure.prose import Request
from tools.measure.workload import Workload, WorkloadSpec

__all__ = ["read_workload", "write_workload"]

_KIND = "autotune-workload"


def write_workload(workload: Workload, path: Path) -> None:
    """Write `workload` to `path`, whole or not at all; compressed where the name ends in .gz."""
    header = {
        "kind": _KIND,
        "version": 1,
        "spec": workload.spec.model_dump(mode="json", by_alias=True, exclude_unset=True),
        "seed": workload.seed,
        "digest": workload.digest,
        "warmup": len(workload.warmup),
        "requests": len(workload.requests),
    }
    draft = path.with_name(path.name + ".part")
    try:
        with _opened(draft, "wb", path.suffix == ".gz") as file:
            for line in (header, *(request.to_json() for request in (*workload.warmup, *workload.requests))):
                file.write(orjson.dumps(line) + b"\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def read_workload(path: Path) -> Workload:
    """The workload that `write_workload` wrote.

    Raises:
        UserError: no such file, or not one of ours, or it was cut short or changed since.
    """
    try:
        with _opened(path, "rb", path.suffix == ".gz") as file:
            lines = file.read().splitlines()
        header = orjson.loads(lines[0])
        if not isinstance(header, dict) or header.get("kind") != _KIND:
            raise UserError(
                f"{path}: expected a workload written by `autotune workload materialise`, found another file"
            )
        parts = [_request(orjson.loads(line)) for line in lines[1:]]
        spec = WorkloadSpec.model_validate(header["spec"])
        split = int(header["warmup"])
        # Indices count within each part; a line's place is its index.
        warmup, requests = (
            tuple(_numbered(index, fields) for index, fields in enumerate(part))
            for part in (parts[:split], parts[split:])
        )
        workload = Workload(spec, int(header["seed"]), requests, warmup)
    except OSError as error:
        raise UserError(f"{path}: can't be read: {error}") from None
    except (orjson.JSONDecodeError, ValidationError, IndexError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path}: expected a concrete workload as JSON lines, found {type(error).__name__}: {error}"
        ) from None
    if workload.digest != header["digest"]:
        raise UserError(
            f"{path}: expected the workload {header['digest'][:12]}, found {workload.digest[:12]}: "
            "the file was cut short or changed; materialise it again"
        )
    return workload


def _request(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "messages": tuple(data["messages"]), "tools": tuple(data.get("tools", ()))}


def _numbered(index: int, fields: dict[str, Any]) -> Request:
    return Request(index=index, **fields)


@contextmanager
def _opened(path: Path, mode: str, compressed: bool) -> Iterator[BinaryIO]:
    with gzip.open(path, mode) if compressed else path.open(mode) as file:
        yield cast(BinaryIO, file)
