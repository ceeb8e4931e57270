"""BlobStore: raw records beside a ledger, each under the sha256 of its content."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import threading
import zlib
from pathlib import Path
from typing import Any

from tools.canonical import canonical_json
from tools.errors import UserError

__all__ = ["BlobStore"]


class BlobStore:
    """Content-addressed files in one folder: `<sha256 of the content>.json.gz`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, blob: str) -> Path:
        return self.folder / f"{blob}.json.gz"

    def put(self, content: bytes | Any) -> str:
        """Store bytes as they are, or a JSON value as canonical JSON; returns the sha256 of what was stored.

        The file appears whole or not at all, and equal content is stored once.
        """
        raw = content if isinstance(content, bytes) else canonical_json(content)
        blob = hashlib.sha256(raw).hexdigest()
        if self.path(blob).exists():
            return blob
        self.folder.mkdir(parents=True, exist_ok=True)
        compressed = _compress(raw)
        partial = self.folder / f"{blob}.{os.getpid()}-{threading.get_ident()}.partial"
        try:
            with partial.open("wb") as file:
                file.write(compressed)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path(blob))
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise UserError(f"{self.folder}: can't store a blob: {error}; free some disk space and resume") from error
        fsync_directory(self.folder)
        return blob

    def get(self, blob: str) -> bytes:
        """The bytes that were put under the digest `blob`.

        Raises:
            UserError: no such blob, or its content no longer has that digest.
        """
        content = self._read(blob)
        if isinstance(content, str):
            raise UserError(f"{self.folder}: {content}; the evidence of this run is incomplete, so it can't be used")
        return content

    def problem(self, blob: str) -> str | None:
        """What is wrong with a blob, as a clause; None where it is whole, to the last bit of its file.

        Some bits of a compressed file mean nothing: its header's, and what fills up the last byte. They are compared
        with what compressing the content gives here; another release of zlib may compress otherwise throughout.
        """
        content = self._read(blob)
        if isinstance(content, str):
            return content
        found, expected = self.path(blob).read_bytes(), _compress(content)
        differ = sum(a != b for a, b in zip(found, expected, strict=False)) if len(found) == len(expected) else 0
        if found[: len(_HEADER)] != _HEADER or 0 < differ <= _FEW_BYTES:
            return f"blob {blob} was altered: its file differs from what was written, though its content doesn't"
        return None

    def _read(self, blob: str) -> bytes | str:
        if not re.fullmatch("[0-9a-f]{64}", blob):
            return f"{blob!r} is not the digest of a blob"
        try:
            content = gzip.decompress(self.path(blob).read_bytes())
        except FileNotFoundError:
            return f"blob {blob} is missing"
        except (OSError, EOFError, zlib.error) as error:
            return f"blob {blob} was altered: it can't be decompressed ({error})"
        if hashlib.sha256(content).hexdigest() != blob:
            return f"blob {blob} was altered: its content no longer has that digest"
        return content


_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
"Of every file: deflate, no name, no time, and no word on the system, whatever the release of zlib here would say."
_FEW_BYTES = 8


def _compress(content: bytes) -> bytes:
    return _HEADER + gzip.compress(content, compresslevel=6, mtime=0)[len(_HEADER) :]


def fsync_directory(folder: Path) -> None:
    """Make a file's appearance in `folder` survive a power cut."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
