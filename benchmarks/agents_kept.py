"""Kept plays: what a strategy has asked for is kept in a folder, so that a stopped row goes on and rows share plays.

AGENTS_OUT names the folder; without it nothing is kept. A play counts as long as nothing that it depends on has
changed: the table, the seed, the versions of the optimisers, and the sources of the strategy and of what it is told.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

from benchmarks.surfaces.table import FOLDER
from tools.canonical import digest
from tools.search import Observation, Strategy
from tools.targets.knobs import Value

__all__ = ["kept"]

ROOT = Path(__file__).resolve().parents[1]
_ALL = ("at_random", "observation", "prior", "problem", "space", "told", "turn")
_OF_ALL = tuple(f"tools/search/{name}.py" for name in _ALL)
_OURS = (
    "tools/search/*.py",
    "tools/oracle/*.py",
    "agents/*.py",
    "playbooks/*.yaml",
    "benchmarks/agents_advice.py",
    "benchmarks/agents_contestants.py",
    "benchmarks/data/llm_alone.json",
)
_SOURCES: Mapping[str, tuple[str, ...]] = {
    "random": _OF_ALL,
    **{name: (*_OF_ALL, f"tools/search/{name}.py") for name in ("tpe", "gp", "smac")},
}
"What a contestant's proposals depend on; all of ours where it isn't named."

_PACKAGES: Mapping[str, tuple[str, ...]] = {"tpe": ("optuna",), "gp": ("optuna",), "smac": ("smac",)}


def kept(strategy: Strategy, name: str, table: str, seed: int) -> Strategy:
    """`strategy` of the contestant `name`, whose play on a table under a seed is kept; itself where nothing is kept."""
    folder = os.environ.get("AGENTS_OUT")
    if not folder:
        return strategy
    return _Kept(strategy, Path(folder) / f"{name}-{table}-{seed}.json", _key(name, table, seed))


class _Kept:
    """Says again what was asked for before, and keeps what is new."""

    def __init__(self, strategy: Strategy, file: Path, key: str) -> None:
        self._strategy = strategy
        self._file = file
        self._key = key
        self._said: list[dict[str, Value] | None] = []
        if file.is_file() and (found := json.loads(file.read_text()))["key"] == key:
            self._said = found["said"]

    @property
    def name(self) -> str:
        return self._strategy.name

    def ask(self, history: Sequence[Observation]) -> dict[str, Value] | None:
        """The patch for as many trials as `history` has after the default's."""
        number = len(history) - 1
        if number >= len(self._said):
            self._said.append(self._strategy.ask(history))
            self._keep()
        return self._said[number]

    def _keep(self) -> None:
        """Whole or not at all: an interrupted write must not look like a play."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        draft = self._file.with_suffix(".part")
        draft.write_text(json.dumps({"key": self._key, "said": self._said}))
        draft.replace(self._file)


def _key(name: str, table: str, seed: int) -> str:
    return digest([name, seed, _digest_of(FOLDER / f"{table}.json.gz"), _code(name)])


@cache
def _digest_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@cache
def _code(name: str) -> str:
    """sha256 of all sources that decide what the contestant proposes, and the versions of the optimisers."""
    files = sorted(file for pattern in _SOURCES.get(name, _OURS) for file in ROOT.glob(pattern))
    versions = [version(package) for package in _PACKAGES.get(name, ())]
    return digest([versions, [[str(file.relative_to(ROOT)), _digest_of(file)] for file in files]])
