"""Table: the cells of a table as a template shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Cell", "Mood", "Table", "plain"]

Mood = Literal["", "good", "bad", "warn"]


@dataclass(frozen=True, slots=True)
class Cell:
    """`text` with a smaller line below it; `why` is shown on hovering, and `mood` colours it."""

    text: str
    small: str = ""
    why: str = ""
    mood: Mood = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows as long as the head; the first cell of each names it."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""


def plain(*texts: str) -> tuple[Cell, ...]:
    """A row of texts alone."""
    return tuple(Cell(text) for text in texts)
