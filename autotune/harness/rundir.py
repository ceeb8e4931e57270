"""RunDir: the folder `runs/<id>/` in which everything of a run stands."""

from __future__ import annotations

import secrets
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from tools.errors import UserError

__all__ = ["RunDir"]


@dataclass(frozen=True, slots=True)
class RunDir:
    """Paths of one run."""

    path: Path

    @classmethod
    def create(cls, runs: Path, deployment_name: str) -> RunDir:
        """A new folder below `runs`, which ignores itself in git so that it never dirties the user's checkout."""
        runs.mkdir(parents=True, exist_ok=True)
        ignore = runs / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
        stamp = time.strftime("%Y%m%d-%H%M%S")
        run = cls(runs / f"{deployment_name}-{stamp}-{secrets.token_hex(3)}")
        run.path.mkdir()
        run.logs.mkdir()
        return run

    @classmethod
    def open(cls, runs: Path, id_or_path: str) -> RunDir:
        """The run called `id_or_path` (an id below `runs`, a path, or `latest`).

        Raises:
            UserError: there is no such run.
        """
        known = sorted((p for p in runs.glob("*/ledger.jsonl")), key=lambda p: p.stat().st_mtime)
        if id_or_path == "latest":
            if not known:
                raise UserError(f"expected a run in {runs}, found none; start one with `autotune tune DEPLOYMENT`")
            return cls(known[-1].parent)
        for path in (runs / id_or_path, Path(id_or_path)):
            if (path / "ledger.jsonl").is_file():
                return cls(path)
        names = ", ".join(p.parent.name for p in known[-3:]) or "none"
        raise UserError(f"no run {id_or_path!r} (looked in {runs}); latest runs: {names}")

    def discard(self) -> None:
        """Remove the folder: for a run that failed before anything was measured."""
        shutil.rmtree(self.path, ignore_errors=True)

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints.sqlite"

    @property
    def logs(self) -> Path:
        return self.path / "logs"
