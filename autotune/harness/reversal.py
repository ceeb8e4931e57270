"""Reversal: the change that takes a change back, and its application to a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from tools.errors import UserError

__all__ = ["Hunk", "Reversal"]


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines next to each other that a change made of others; line ends included."""

    at: int
    "Number from 0 of the first in the changed text."
    made: tuple[str, ...]
    "What the change left there; never empty but for an empty text, so that a place is known by what stands there."
    before: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reversal:
    """What `git apply --reverse` would do: put the lines back, or refuse to."""

    hunks: tuple[Hunk, ...]
    "In order of their lines."

    @classmethod
    def of(cls, before: str, after: str) -> Reversal:
        """What takes `after` back to `before`."""
        return cls(tuple(_hunks(before.splitlines(keepends=True), after.splitlines(keepends=True))))

    def applied(self, text: str) -> str:
        """`text` with the change taken back.

        Raises:
            UserError: a line isn't as the change left it, so somebody changed it since.
        """
        lines = text.splitlines(keepends=True)
        for hunk in self.hunks:
            for number, made in enumerate(hunk.made, start=hunk.at):
                found = lines[number] if number < len(lines) else ""
                if found != made:
                    raise UserError(f"line {number + 1}: expected {made.rstrip()!r}, found {found.rstrip()!r}")
        for hunk in reversed(self.hunks):
            lines[hunk.at : hunk.at + len(hunk.made)] = hunk.before
        return "".join(lines)


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[Hunk]:
    """The places where `old` and `new` differ; one that left nothing behind has the line beside it for context."""
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    tail = next((n for n in range(shorter - head) if old[-1 - n] != new[-1 - n]), shorter - head)
    # Between the ends that are the same a change is small, so that files of any size are compared at once.
    middle = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    for tag, first, last, start, stop in middle.get_opcodes():
        if tag == "equal":
            continue
        i, j, k, n = (place + head for place in (first, last, start, stop))
        if k == n and k > 0:
            i, k = i - 1, k - 1
        elif k == n and n < len(new):
            j, n = j + 1, n + 1
        yield Hunk(k, tuple(new[k:n]), tuple(old[i:j]))
