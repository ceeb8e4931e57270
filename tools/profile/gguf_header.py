"""GgufHeader: what the head of a GGUF file says of a model; no weight is read.

The gguf package reads the same and every token of the vocabulary with it, which takes 17 s for one of 150,000 tokens;
what is asked here before each proposal has to take a fraction of a second. The format: ggml-org/ggml, docs/gguf.md.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from tools.errors import UserError

__all__ = ["GgufHeader", "Tensor"]

_SCALARS: Mapping[int, str] = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_KEPT_ELEMENTS = 1024
"Longer arrays (vocabulary, merges) are passed over."
_VERSIONS = (2, 3)

Scalar = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor as it is stored."""

    name: str
    values: int
    type_id: int
    "ggml's number of its format."


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Metadata, and what tensors there are."""

    metadata: Mapping[str, Scalar | tuple[Scalar, ...]]
    "Without long arrays."
    tensors: tuple[Tensor, ...]

    @classmethod
    def read(cls, path: Path) -> GgufHeader:
        """The header of the file at `path`.

        Raises:
            UserError: it isn't there, no GGUF of version 2 or 3, or shorter than its header says.
        """
        try:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _Cursor(data).header()
        except (OSError, ValueError, struct.error) as error:
            raise UserError(f"{path}: expected a GGUF file, found one that can't be read: {error}") from None


class _Cursor:
    """A place in the file, moving forward."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def header(self) -> GgufHeader:
        magic, version = self._take("4sI")
        if magic != b"GGUF" or version not in _VERSIONS:
            raise ValueError(f"it begins with {magic!r}, version {version}")
        tensors, pairs = self._take("QQ")
        metadata: dict[str, Scalar | tuple[Scalar, ...]] = {}
        for _ in range(pairs):
            key = self._string()
            value = self._value(self._take("I")[0])
            if value is not None:
                metadata[key] = value
        return GgufHeader(metadata, tuple(self._tensor() for _ in range(tensors)))

    def _tensor(self) -> Tensor:
        name = self._string()
        (dimensions,) = self._take("I")
        shape = self._take(f"{dimensions}Q")
        type_id, _offset = self._take("IQ")
        return Tensor(name, prod(shape), type_id)

    def _value(self, kind: int) -> Scalar | tuple[Scalar, ...] | None:
        """None for an array that is too long to keep."""
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._scalars(kind, 1)[0]
        (of, count) = self._take("IQ")
        if of == _STRING:
            if count > _KEPT_ELEMENTS:
                self._skip_strings(count)
                return None
            return tuple(self._string() for _ in range(count))
        if count > _KEPT_ELEMENTS:
            self._at += count * struct.calcsize(self._code(of))
            return None
        return self._scalars(of, count)

    def _scalars(self, kind: int, count: int) -> tuple[Scalar, ...]:
        return self._take(f"{count}{self._code(kind)}")

    def _code(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise ValueError(f"it has a value of the unknown kind {kind}")
        return _SCALARS[kind]

    def _string(self) -> str:
        (length,) = self._take("Q")
        (text,) = self._take(f"{length}s")
        return bytes(text).decode(errors="replace")

    def _skip_strings(self, count: int) -> None:
        data, at, length_of = self._data, self._at, struct.Struct("<Q").unpack_from
        for _ in range(count):
            at += 8 + length_of(data, at)[0]
        self._at = at

    def _take(self, code: str) -> tuple[Any, ...]:
        code = f"<{code}"
        values = struct.unpack_from(code, self._data, self._at)
        self._at += struct.calcsize(code)
        return values
