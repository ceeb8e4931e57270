"""The colours of pictures, each a variable of the page's style sheet with a value of its own behind it."""

from __future__ import annotations

__all__ = ["COLOURS", "colour"]

COLOURS = {
    "green": "#1f6f54",
    "rust": "#b3452c",
    "blue": "#2f6db3",
    "ochre": "#96700f",
    "violet": "#7a4fa3",
    "grey": "#8a939d",
    "rose": "#e2a08f",
    "mint": "#7fc3a6",
    "ink": "#22262b",
    "muted": "#5b6370",
    "grid": "#e3e6ea",
    "paper": "#ffffff",
}
"""Name to its value in light. The style sheet has the values in dark; a picture in a file by itself has these."""


def colour(name: str) -> str:
    """A CSS value; for `style="..."`, as presentation attributes take no variables everywhere.

    Raises:
        KeyError: no such colour.
    """
    return f"var(--{name}, {COLOURS[name]})"
