"""Transcripts: what a real LLM proposed on each recorded table, left alone. `agents_record_llm` makes them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tools.errors import UserError
from tools.search import Observation
from tools.targets.knobs import Value

__all__ = ["FILE", "Retold", "proposals", "recorded"]

FILE = Path(__file__).parent / "data" / "llm_alone.json"


@dataclass(frozen=True)
class Retold:
    """A strategy that says what a transcript says."""

    said: Sequence[Mapping[str, Value]]
    name: str = "llm-alone"

    def ask(self, history: Sequence[Observation]) -> dict[str, Value] | None:
        number = len(history) - 1
        return dict(self.said[number]) if number < len(self.said) else None


def recorded(tables: Collection[str]) -> bool:
    """Whether there is a transcript for each of `tables`."""
    return set(tables) <= _transcripts().keys()


def proposals(table: str, seed: int) -> Sequence[Mapping[str, Value]]:
    """What the LLM proposed on `table`, in order; the recorded transcripts are taken in turn.

    Raises:
        UserError: none was recorded.
    """
    if not (known := _transcripts().get(table)):
        raise UserError(f"no transcript of an LLM on {table}; record it with python -m benchmarks.agents_record_llm")
    return known[seed % len(known)]


@cache
def _transcripts() -> Mapping[str, Sequence[Sequence[Mapping[str, Value]]]]:
    """By table."""
    found: Mapping[str, Any] = json.loads(FILE.read_text())["tables"] if FILE.is_file() else {}
    return found
