"""Part: some words of a command that stand together, each in a writing of its own; and the edits they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from tools.manifests.splice import CannotEdit, Splice
from tools.manifests.view import View

__all__ = ["Implied", "Insertable", "Part", "Variables", "is_flag", "nearest"]


Insertable = Literal["anywhere", "end", "nowhere"]
"""Where a part takes new words."""


class Part(Protocol):
    """Words in one place of the file. Numbers of words count within the part."""

    @property
    def words(self) -> tuple[str, ...]: ...

    @property
    def insertable(self) -> Insertable: ...

    @property
    def computed(self) -> frozenset[int]:
        """Words whose value isn't in the file: a template's, a variable's."""

    def view_of(self, at: int) -> View | None:
        """What stands in one word, to be read by another reader; None: it has no place in the file."""

    def replaced(self, at: int, word: str) -> Splice: ...

    def deleted(self, at: int, count: int) -> list[Splice]: ...

    def inserted(self, at: int, words: tuple[str, ...], going: int) -> list[Splice]:
        """New words before word `at`; `going` words from there on go themselves."""

    def extents(self) -> list[tuple[int, int]]:
        """Where the part stands in the file."""


class Variables(Protocol):
    """The environment that a command gets."""

    @property
    def values(self) -> Mapping[str, str]:
        """Those whose values stand in the file."""

    @property
    def opaque(self) -> Mapping[str, str]:
        """Those that come from elsewhere, and from where."""

    def changed(self, changes: Mapping[str, str | None]) -> list[Splice]: ...

    def extents(self) -> list[tuple[int, int]]: ...


@dataclass(frozen=True)
class Implied:
    """Words that the engine gets and that no one wrote: an image's own program, a chart's."""

    words: tuple[str, ...]
    why: str
    computed: frozenset[int] = frozenset()
    insertable: Insertable = "nowhere"

    def view_of(self, at: int) -> View | None:
        return None

    def replaced(self, at: int, word: str) -> Splice:
        raise CannotEdit(f"{self.words[at]} stands nowhere in this file: {self.why}")

    def deleted(self, at: int, count: int) -> list[Splice]:
        raise CannotEdit(f"{self.words[at]} stands nowhere in this file: {self.why}")

    def inserted(self, at: int, words: tuple[str, ...], going: int) -> list[Splice]:
        raise CannotEdit(
            f"there is no place for {' '.join(words)}: {self.why}; add a list of arguments with one argument by hand"
        )

    def extents(self) -> list[tuple[int, int]]:
        return []


def is_flag(word: str) -> bool:
    return word.startswith("-") and word not in ("-", "--") and not word[1:2].isdigit()


def nearest(words: Sequence[str], at: int, flag: bool, first: int = 0) -> int | None:
    """The word nearest to place `at` that is (or isn't) a flag: one before it if there is any, else one behind."""
    before = (place for place in range(min(at, len(words)) - 1, first - 1, -1) if is_flag(words[place]) == flag)
    behind = (place for place in range(max(at, first), len(words)) if is_flag(words[place]) == flag)
    return next(before, next(behind, None))
