"""Looks: what a varying field is, told by its shape alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

__all__ = ["looks_of", "masked"]

_KINDS = (
    ("a UUID-like field", re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")),
    ("an address-like field", re.compile(r"\S+@\S+\.\S+|\b\d{1,3}(?:\.\d{1,3}){3}\b")),
    (
        "a timestamp-like field",
        re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\b\d{1,2}:\d\d(?::\d\d)?\b|\b1\d{9}(?:\d{3}){0,2}\b"),
    ),
    (
        "a date-like field",
        re.compile(
            r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b"
            r"|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\b"
        ),
    ),
    ("an id-like field", re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z])[\w-]{6,}\b|\b[0-9a-fA-F]{16,}\b")),
    ("a counter-like field", re.compile(r"^\W*\d+\W*$")),
    ("a name-like field", re.compile(r"^\W*[A-Z][\w'-]*(?: [A-Z][\w'-]*){0,3}\W*$")),
)


def looks_of(examples: Iterable[str]) -> str:
    """The kind that most of `examples` look like, or "a varying text"."""
    votes = Counter(next((name for name, shape in _KINDS if shape.search(text)), "a varying text") for text in examples)
    return votes.most_common(1)[0][0] if votes else "a varying text"


def masked(text: str, most: int = 40) -> str:
    """`text` with every letter as a and every digit as 9: its shape without its content."""
    shape = re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "9", " ".join(text.split())))
    return shape if len(shape) <= most else shape[: most - 3] + "..."
