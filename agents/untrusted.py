"""Text that anyone may have written, on its way into a prompt: one line, capped, and delimited as data."""

from __future__ import annotations

import json

__all__ = ["LINE_CHARS", "as_data", "last_lines", "one_line"]

LINE_CHARS = 240
"Most of one line that a prompt holds."


def one_line(text: str, chars: int = LINE_CHARS) -> str:
    """`text` as one printable line of at most `chars` characters."""
    return "".join(char if char.isprintable() else " " for char in text)[:chars]


def last_lines(text: str, count: int) -> list[str]:
    """The last `count` lines of `text` that aren't empty, each printable and capped."""
    lines = [one_line(line).strip() for line in text.splitlines()]
    return [line for line in lines if line][-count:]


def as_data(value: object) -> str:
    """JSON in which no text can close the <data> that it stands in."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
