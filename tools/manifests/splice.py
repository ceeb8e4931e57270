"""Splice: characters of a text replaced by others; all the rest stays as it was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["CannotEdit", "Splice", "spliced"]


class CannotEdit(ValueError):
    """An edit that this place can't take. The message says why and what to do, but not where: the manifest knows."""


@dataclass(frozen=True, slots=True, order=True)
class Splice:
    """Characters `start` to `end` (exclusive, counted from 0) of a file give way to `text`."""

    start: int
    end: int
    text: str


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """`text` with all `splices` done; of two at one place, an insertion comes first.

    Raises:
        CannotEdit: two of them overlap.
    """
    pieces: list[str] = []
    done = 0
    for splice in sorted(splices, key=lambda splice: (splice.start, splice.end)):
        if splice.start < done:
            raise CannotEdit("two changes meet in the same characters; make them one after the other")
        pieces += (text[done : splice.start], splice.text)
        done = splice.end
    return "".join((*pieces, text[done:]))
