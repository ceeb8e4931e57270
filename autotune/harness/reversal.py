"""Reversal: the change that takes a change back, and its application to a text."""

from __future__ import annotations

from dataclasses import dataclass

from tools.errors import UserError

__all__ = ["Reversal"]


@dataclass(frozen=True, slots=True)
class Reversal:
    """Lines that a change replaced: as `git apply --reverse` would put them back, or refuse to."""

    lines: tuple[tuple[int, str, str], ...]
    "Number of the line from 0, what the change made of it, what stood there before; line ends included."

    @classmethod
    def of(cls, before: str, after: str) -> Reversal:
        """What takes `after` back to `before`.

        Raises:
            UserError: lines were added or removed, which a change of values never does.
        """
        old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
        if len(old) != len(new):
            raise UserError(f"expected a change within lines, found {len(old)} lines before and {len(new)} after")
        pairs = enumerate(zip(old, new, strict=True))
        return cls(tuple((number, after, before) for number, (before, after) in pairs if before != after))

    def applied(self, text: str) -> str:
        """`text` with the change taken back.

        Raises:
            UserError: a line isn't as the change left it, so somebody changed it since.
        """
        lines = text.splitlines(keepends=True)
        for number, after, before in self.lines:
            found = lines[number] if number < len(lines) else ""
            if found != after:
                raise UserError(f"line {number + 1}: expected {after.rstrip()!r}, found {found.rstrip()!r}")
            lines[number] = before
        return "".join(lines)
