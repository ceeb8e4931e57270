"""Document: a foreign file's JSON, read and checked against a model of the parts that are used."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from tools.errors import UserError

__all__ = ["Foreign", "checked", "json_lines", "load_json"]


class Foreign(BaseModel):
    """Part of a file that we don't own: what we use is typed, what its tool adds is ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


F = TypeVar("F", bound=Foreign)


def checked(model: type[F], data: Any, path: Path, what: str) -> F:
    """`data` as `model`.

    Raises:
        UserError: a part is missing or of another type; names each.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors()[:5])
        raise UserError(
            f"{path}: looks like {what}, but expected parts of it are missing or differ: {problems}. "
            "Was it cut, or written by a version with another schema?"
        ) from None


def load_json(path: Path) -> Any:
    """The one JSON value in a file; gzip by the suffix `.gz`.

    Raises:
        UserError: no such file, or not one JSON value.
    """
    try:
        content = path.read_bytes()
        return orjson.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: can't be read: {error}") from None
    except orjson.JSONDecodeError as error:
        hint = "; it holds several values: keep one per file" if "unexpected content" in str(error) else ""
        raise UserError(f"{path}: expected one JSON value, found {error}{hint}") from None


def json_lines(path: Path) -> Iterator[Any]:
    """The values of a JSON-lines file, one at a time; gzip by the suffix `.gz`; blank lines are skipped.

    Raises:
        UserError: no such file, or a line that isn't JSON.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    try:
                        yield orjson.loads(line)
                    except orjson.JSONDecodeError as error:
                        raise UserError(f"{path}, line {number}: expected a JSON value, found {error}") from None
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: can't be read: {error}") from None
