"""Journal: the file of trials. Its first line says what is compared, each further one holds a trial, whole and raw."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.canonical import canonical_json, digest
from tools.errors import UserError

__all__ = ["Journal"]


class Journal:
    """Trials in the order in which they ended; the same comparison goes on where its file ends.

    Args:
        path: of the file; None keeps nothing.
        compared: what may not change between one sitting and the next, as plain JSON values.

    Raises:
        UserError: the file can't be written, or holds something else.
    """

    def __init__(self, path: Path | None, compared: Mapping[str, Any]) -> None:
        self.path = path
        self._head: dict[str, Any] = {"compared": dict(compared), "digest": digest(dict(compared))}
        self.found: list[dict[str, Any]] = []
        "Trials of an earlier sitting."
        if path is None:
            return
        if not path.absolute().parent.is_dir() or path.is_dir():
            raise UserError(f"--out {path}: expected the name of a file in a folder that is there")
        self.found = self._resumed(path)

    def append(self, trial: Mapping[str, Any]) -> None:
        """`trial` is on disk before this returns."""
        if self.path is not None:
            self._write(self.path, trial)

    def _resumed(self, path: Path) -> list[dict[str, Any]]:
        try:
            lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        except OSError as error:
            raise UserError(f"--out {path}: can't be read: {error.strerror or error}") from error
        whole = [line for line in lines if line.endswith(b"\n")]
        if not lines:
            self._write(path, self._head)
            return []
        try:
            head, *trials = [json.loads(line) for line in whole]
            known = head["digest"]
        except (ValueError, KeyError, TypeError):
            raise UserError(
                f"--out {path}: expected trials of `autotune compare`, found another kind of file"
            ) from None
        if known != self._head["digest"]:
            changed = [name for name, value in self._head["compared"].items() if head["compared"].get(name) != value]
            raise UserError(
                f"--out {path}: expected trials of this comparison, found those of another ({', '.join(changed)} "
                "differ); name another file, or remove it"
            )
        if len(whole) < len(lines):  # the last line was being written when its writer was ended
            os.truncate(path, sum(map(len, whole)))
        return trials

    def _write(self, path: Path, row: Mapping[str, Any]) -> None:
        try:
            with path.open("ab") as file:
                file.write(canonical_json(dict(row)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise UserError(f"{path}: can't be written: {error.strerror or error}") from error
