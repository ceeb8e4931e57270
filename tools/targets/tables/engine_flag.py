"""EngineFlag: one flag as an engine itself tells it, in its help or in its published argument table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["EngineFlag", "Takes", "by_spelling"]

Takes = Literal["nothing", "value", "values"]


@dataclass(frozen=True, slots=True)
class EngineFlag:
    """What an engine says of one of its flags."""

    spellings: tuple[str, ...]
    takes: Takes
    choices: tuple[str, ...] = ()
    "The words it takes; empty: not told."
    default: str | None = None
    "In the help's own words; None: not told."
    numbers: Literal["int", "float"] | None = None
    "What its value is read as; None: not told, or a text."
    variable: str = ""
    "The environment variable that says the same; empty: not told."

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EngineFlag:
        return cls(**{**data, "spellings": tuple(data["spellings"]), "choices": tuple(data["choices"])})


def by_spelling(flags: Iterable[EngineFlag]) -> dict[str, EngineFlag]:
    """Each flag under each of its spellings."""
    found: dict[str, EngineFlag] = {}
    for flag in flags:
        found |= dict.fromkeys(flag.spellings, flag)
    return found
