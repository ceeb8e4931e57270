"""Chart: one picture as plain SVG. Lines, steps, dots, boxes and bands on a grid; colours follow the page's theme.

Texts are escaped here; whoever draws passes them as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from autotune.pages.ink import colour
from autotune.pages.legend import Key, Shape, legend
from autotune.pages.number import tick
from autotune.pages.points import Point, finite, pieces, staircase, thinned
from autotune.pages.scale import Scale
from autotune.pages.text import svg_text

__all__ = ["Chart"]

_RIGHT, _TOP, _BOTTOM = 18, 16, 48


class Chart:
    """Draw with the methods, then take `svg()`. What is drawn first lies below.

    `title` is what a screen reader says; `x` and `y` are the scales of the axes, `names` their labels. Without
    `y_ticks` the rows of the chart have no values, only what is in them.
    """

    def __init__(
        self,
        title: str,
        x: Scale,
        y: Scale,
        names: tuple[str, str],
        *,
        width: int = 760,
        height: int = 300,
        y_ticks: bool = True,
    ) -> None:
        self._title, self._x, self._y, self._names, self._y_ticks = title, x, y, names, y_ticks
        self._width, self._height = width, height
        self._left, self._end, self._floor = 64, width - _RIGHT, height - _BOTTOM
        self._parts: list[str] = []
        self._keys: list[Key] = []
        self._grid()

    def line(
        self, points: Iterable[Point], ink: str, *, key: str = "", dashed: bool = False, wide: float = 1.8
    ) -> None:
        """A line through `points`, in pieces where one isn't finite."""
        for piece in pieces(points):
            self._polyline(thinned(piece), ink, key, wide, dashed)
        self.legend(key, ink, "line")

    def step(self, points: Sequence[Point], ink: str, *, key: str = "") -> None:
        """A line that keeps a point's height until the next point."""
        self._polyline(staircase(thinned([point for point in points if finite(point)])), ink, key, 1.8, False)
        self.legend(key, ink, "line")

    def area(self, points: Sequence[Point], ink: str, *, key: str = "") -> None:
        """Steps as in `step`, filled down to the axis."""
        corners = staircase(thinned([point for point in points if finite(point)]))
        if corners:
            floor = self._y.low
            self._polygon([(corners[0][0], floor), *corners, (corners[-1][0], floor)], ink, 0.25, key)
        self.legend(key, ink, "pale")

    def band(self, lower: Sequence[Point], upper: Sequence[Point], ink: str, *, key: str = "") -> None:
        """The space between two lines."""
        low = [point for point in lower if finite(point)]
        high = [point for point in upper if finite(point)]
        if low and high:
            self._polygon([*thinned(low), *reversed(thinned(high))], ink, 0.18, key)
        self.legend(key, ink, "pale")

    def dots(self, points: Iterable[tuple[float, float, str]], ink: str, *, key: str = "", radius: float = 3.0) -> None:
        """A dot per (x, y, tooltip)."""
        drawn = [
            f'<circle cx="{self._px(x)}" cy="{self._py(y)}" r="{radius:g}">{_tooltip(title)}</circle>'
            for x, y, title in points
            if finite((x, y))
        ]
        if drawn:
            self._parts.append(f'<g style="fill:{colour(ink)}" fill-opacity="0.8">{"".join(drawn)}</g>')
        self.legend(key, ink, "dot")

    def box(self, across: tuple[float, float], up: tuple[float, float], ink: str, *, title: str = "") -> None:
        """A filled rectangle, its sides given in values of the axes."""
        left, right = (self._at_x(value) for value in across)
        bottom, top = (self._at_y(value) for value in up)
        self._parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(right - left, 0.6):.1f}" '
            f'height="{max(bottom - top, 0.6):.1f}" style="fill:{colour(ink)}">{_tooltip(title)}</rect>'
        )

    def bound(self, value: float, text: str, ink: str = "rust") -> None:
        """A dashed line across the chart at `value` of the y axis; nothing where it lies outside."""
        if not math.isfinite(value) or not self._y.low <= value <= self._y.high:
            return
        at = self._at_y(value)
        below = at < _TOP + 14
        self._dashed(self._left, self._end, at, at, ink)
        self._text(self._end, at + (13 if below else -5), text, "end", ink)

    def mark(self, value: float, text: str, ink: str = "rust", *, row: int = 0) -> None:
        """A dashed line up the chart at `value` of the x axis, its text in `row` from below; nothing where it lies
        outside."""
        if not math.isfinite(value) or not self._x.low <= value <= self._x.high:
            return
        at = self._at_x(value)
        rightmost = at > self._left + 0.6 * (self._end - self._left)
        self._dashed(at, at, _TOP, self._floor, ink)
        self._text(
            at + (-5 if rightmost else 5), self._floor - 8 - 15 * row, text, "end" if rightmost else "start", ink
        )

    def label(self, x: float, y: float, text: str, *, anchor: str = "start", ink: str = "ink") -> None:
        """A text beside a place given in values of the axes."""
        shift = {"start": 6, "middle": 0, "end": -6}[anchor]
        self._text(self._at_x(x) + shift, self._at_y(y) + 4, text, anchor, ink)

    def legend(self, text: str, ink: str, shape: Shape) -> None:
        """An entry of the legend, once per text."""
        if text and all(key.text != text for key in self._keys):
            self._keys.append(Key(text, ink, shape))

    def svg(self) -> str:
        """The whole picture, scaled to the width that it is given."""
        entries, more = legend(self._keys, self._left, self._end, self._height)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self._width} {self._height + more}" role="img" '
            f'aria-label="{svg_text(self._title)}" font-family="system-ui, sans-serif" font-size="12">'
        )
        return "".join([head, *self._parts, *entries, "</svg>"])

    def _grid(self) -> None:
        for value in self._x.ticks():
            at = self._at_x(value)
            self._line(at, at, _TOP, self._floor)
            self._text(at, self._floor + 16, tick(value), "middle", "muted")
        for value in self._y.ticks() if self._y_ticks else ():
            at = self._at_y(value)
            self._line(self._left, self._end, at, at)
            self._text(self._left - 7, at + 4, tick(value), "end", "muted")
        across, up = self._names
        self._text((self._left + self._end) / 2, self._floor + 36, across, "middle", "ink")
        middle = (_TOP + self._floor) / 2
        self._text(14, middle, up, "middle", "ink", f' transform="rotate(-90 14 {middle:g})"')

    def _line(self, x1: float, x2: float, y1: float, y2: float) -> None:
        place = f'x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"'
        self._parts.append(f'<line {place} style="stroke:{colour("grid")}"/>')

    def _dashed(self, x1: float, x2: float, y1: float, y2: float, ink: str) -> None:
        place = f'x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"'
        self._parts.append(f'<line {place} style="stroke:{colour(ink)}" stroke-dasharray="5 4" stroke-width="1.4"/>')

    def _text(self, x: float, y: float, text: str, anchor: str, ink: str, more: str = "") -> None:
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}'
        # The halo keeps a text readable on top of lines.
        style = f"fill:{colour(ink)};stroke:{colour('paper')};stroke-width:3px;paint-order:stroke"
        self._parts.append(f'<text {place} style="{style}">{svg_text(text)}</text>')

    def _polyline(self, points: Sequence[Point], ink: str, title: str, wide: float, dashed: bool) -> None:
        if len(points) > 1:
            dash = ' stroke-dasharray="6 4"' if dashed else ""
            self._parts.append(
                f'<polyline points="{self._path(points)}" fill="none" style="stroke:{colour(ink)}" '
                f'stroke-width="{wide:g}" stroke-linejoin="round"{dash}>{_tooltip(title)}</polyline>'
            )

    def _polygon(self, points: Sequence[Point], ink: str, opacity: float, title: str) -> None:
        style = f'style="fill:{colour(ink)}" fill-opacity="{opacity:g}"'
        self._parts.append(f'<polygon points="{self._path(points)}" {style}>{_tooltip(title)}</polygon>')

    def _path(self, points: Sequence[Point]) -> str:
        return " ".join(f"{self._px(x)},{self._py(y)}" for x, y in points)

    def _at_x(self, value: float) -> float:
        return self._left + self._x.at(value) * (self._end - self._left)

    def _at_y(self, value: float) -> float:
        return self._floor - self._y.at(value) * (self._floor - _TOP)

    def _px(self, value: float) -> str:
        return f"{self._at_x(value):.1f}"

    def _py(self, value: float) -> str:
        return f"{self._at_y(value):.1f}"


def _tooltip(text: str) -> str:
    return f"<title>{svg_text(text)}</title>" if text else ""
