"""The legend below a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from autotune.pages.ink import colour
from autotune.pages.text import svg_text

__all__ = ["Key", "Shape", "legend"]

Shape = Literal["line", "dot", "box", "pale"]

_LETTER = 6.6  # pixels of one, about
_ROW = 18


@dataclass(frozen=True, slots=True)
class Key:
    text: str
    ink: str
    shape: Shape


def legend(keys: Sequence[Key], left: float, right: float, top: float) -> tuple[list[str], int]:
    """SVG elements in rows between `left` and `right` from `top` on, and the height of those rows."""
    parts, at, row = [], left, 0
    for key in keys:
        length = 36 + _LETTER * len(key.text)
        if at + length > right and at > left:
            at, row = left, row + 1
        y = top + 4 + _ROW * row
        label = f'<text x="{at + 20:.1f}" y="{y + 4:g}" style="fill:{colour("ink")}">{svg_text(key.text)}</text>'
        parts.append(_mark(key, at, y) + label)
        at += length
    return parts, _ROW * (row + 1) if keys else 0


def _mark(key: Key, x: float, y: float) -> str:
    if key.shape == "line":
        style = f"stroke:{colour(key.ink)};stroke-width:2.4"
        return f'<line x1="{x:.1f}" x2="{x + 15:.1f}" y1="{y:g}" y2="{y:g}" style="{style}"/>'
    if key.shape == "dot":
        return f'<circle cx="{x + 8:.1f}" cy="{y:g}" r="4" style="fill:{colour(key.ink)}"/>'
    style = f"fill:{colour(key.ink)}" + (";fill-opacity:0.3" if key.shape == "pale" else "")
    return f'<rect x="{x + 1:.1f}" y="{y - 5:g}" width="13" height="10" rx="2" style="{style}"/>'
