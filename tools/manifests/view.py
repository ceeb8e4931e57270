"""View: a text as its reader decodes it (unquoted, unfolded), with the way back to the characters of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tools.manifests.splice import CannotEdit, Splice

__all__ = ["View", "whole_file"]


def _as_it_is(text: str) -> str:
    return text


@dataclass(frozen=True)
class View:
    """`text` as decoded from `file`. Views nest: a command in a script in a YAML scalar is three deep."""

    file: str
    text: str
    starts: Sequence[int]
    "Where each character of `text` begins in the file."
    ends: Sequence[int]
    "Where it ends there (exclusive)."
    at: int
    "Where the text stands in the file, should it be empty."
    encode: Callable[[str], str] = _as_it_is
    "Text as it must be written into the file to be decoded as such."
    foreign: frozenset[int] = frozenset()
    "Characters that stand for something else: a template's, a variable's."
    locked: str = ""
    "Why nothing here can be edited, and what to do; empty: it can."

    def splice(self, start: int, end: int, text: str) -> Splice:
        """Characters `start` to `end` of this view replaced by `text`."""
        return self.raw_splice(start, end, self.encode(text))

    def raw_splice(self, start: int, end: int, text: str) -> Splice:
        """The same, with `text` as the file shall hold it.

        Raises:
            CannotEdit: the view is locked.
        """
        if self.locked:
            raise CannotEdit(self.locked)
        if start < end:
            return Splice(self.starts[start], self.ends[end - 1], text)
        here = self.ends[start - 1] if start else self.starts[0] if self.text else self.at
        return Splice(here, here, text)

    def raw(self, start: int, end: int) -> str:
        """Characters `start` to `end` as they stand in the file."""
        return self.file[self.starts[start] : self.ends[end - 1]] if start < end else ""

    def is_foreign(self, start: int, end: int) -> bool:
        """Whether any of the characters `start` to `end` stands for something else."""
        return bool(self.foreign) and any(place in self.foreign for place in range(start, end))

    def part(self, start: int, end: int, encode: Callable[[str], str] = _as_it_is) -> View:
        """The view of characters `start` to `end` alone, written by `encode`."""
        foreign = (place - start for place in self.foreign if start <= place < end)
        empty = self.inner("", (), (), encode, start)
        return replace(
            empty,
            text=self.text[start:end],
            starts=self.starts[start:end],
            ends=self.ends[start:end],
            foreign=frozenset(foreign),
        )

    def inner(
        self, text: str, starts: Sequence[int], ends: Sequence[int], encode: Callable[[str], str], at: int
    ) -> View:
        """What another reader decodes from this view's text; `starts`, `ends` and `at` count in this view."""
        pairs = enumerate(zip(starts, ends, strict=True)) if self.foreign else ()
        foreign = frozenset(place for place, (start, end) in pairs if self.is_foreign(start, end))
        outer = self.encode
        return View(
            file=self.file,
            text=text,
            starts=[self.starts[start] for start in starts],
            ends=[self.ends[end - 1] for end in ends],
            at=self.starts[at] if at < len(self.text) else self.ends[-1] if self.text else self.at,
            encode=encode if outer is _as_it_is else outer if encode is _as_it_is else lambda new: outer(encode(new)),
            foreign=foreign,
            locked=self.locked,
        )

    def marked(self, foreign: re.Pattern[str]) -> View:
        """The view with group 1 of each match of `foreign` known as standing for something else."""
        found = {place for match in foreign.finditer(self.text) for place in range(*match.span(1))}
        return replace(self, foreign=self.foreign | found) if found else self

    def unescaped(self, pair: str) -> View:
        """The view with each `pair` of equal characters (`$$`) read as one, as Compose and systemd do."""
        if pair not in self.text:
            one = pair[0]
            outer = self.encode
            return replace(self, encode=lambda new: outer(new.replace(one, pair)))
        starts, ends, place = list[int](), list[int](), 0
        while place < len(self.text):
            width = len(pair) if self.text.startswith(pair, place) else 1
            starts.append(place)
            ends.append(place + width)
            place += width
        text = "".join(self.text[start] for start in starts)
        return self.inner(text, starts, ends, lambda new: new.replace(pair[0], pair), 0)

    def locked_because(self, why: str) -> View:
        """The view, not to be edited from now on."""
        return replace(self, locked=self.locked or why)


def whole_file(text: str) -> View:
    """The view of a file's text as it stands."""
    return View(text, text, range(len(text)), range(1, len(text) + 1), 0)
