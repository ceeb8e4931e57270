"""A concrete workload as a file: JSON lines, a header with spec and seed, then its requests, the warm-up's first."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from tools.errors import UserError
from tools.measure.prose import Message, Request
from tools.measure.workload import Workload, WorkloadSpec
from tools.whole_file import replaced

__all__ = ["read_workload", "write_workload"]

_KIND = "autotune-workload"


def write_workload(workload: Workload, path: Path) -> None:
    """Write `workload` to `path`, whole or not at all; compressed where the name ends in .gz.

    Raises:
        UserError: it can't be written there.
    """
    header = {
        "kind": _KIND,
        "version": 1,
        "spec": workload.spec.model_dump(mode="json", by_alias=True, exclude_unset=True),
        "seed": workload.seed,
        "digest": workload.digest,
        "warmup": len(workload.warmup),
        "requests": len(workload.requests),
    }
    with replaced(path) as file:
        file.write(orjson.dumps(header, option=orjson.OPT_APPEND_NEWLINE))
        for request in chain(workload.warmup, workload.requests):
            file.write(orjson.dumps(request.to_json(), option=orjson.OPT_APPEND_NEWLINE))


def read_workload(path: Path) -> Workload:
    """The workload that `write_workload` wrote.

    Raises:
        UserError: no such file, or not one of ours, or it was cut short or changed since.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            workload, promised = _workload(path, map(orjson.loads, file))
        found = workload.digest
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(
            f"{path}: expected a whole .gz file, found one that was cut short or changed: {error}; materialise it again"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: can't be read: {error.strerror}") from None
    except (orjson.JSONDecodeError, ValidationError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{path}: expected a concrete workload as JSON lines, found {type(error).__name__}: {error}"
        ) from None
    if found != promised:
        raise UserError(
            f"{path}: expected the workload {promised[:12]}, found {found[:12]}: "
            "the file was cut short or changed; materialise it again"
        )
    return workload


def _workload(path: Path, lines: Iterator[Any]) -> tuple[Workload, str]:
    """The workload in `lines`, and the digest that it had when it was written."""
    header = next(lines, None)
    if not isinstance(header, dict) or header.get("kind") != _KIND:
        raise UserError(f"{path}: expected a workload written by `autotune workload materialise`, found another file")
    # Indices count within each part; a line's place is its index.
    known: dict[tuple[str, str], Message] = {}
    warmup = tuple(_requests(islice(lines, int(header["warmup"])), known))
    requests = tuple(_requests(lines, known))
    spec = WorkloadSpec.model_validate(header["spec"])
    return Workload(spec, int(header["seed"]), requests, warmup), str(header["digest"])


def _requests(lines: Iterable[dict[str, Any]], known: dict[tuple[str, str], Message]) -> Iterator[Request]:
    """Each line's request. Equal messages become one object, as they were before: a long history is held once."""
    for index, line in enumerate(lines):
        messages = tuple(
            known.setdefault((message["role"], message["content"]), message) for message in line["messages"]
        )
        yield Request(**{**line, "index": index, "messages": messages, "tools": tuple(line.get("tools", ()))})
