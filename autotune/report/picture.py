"""The trade-off picture: throughput against latency, every trial a dot, the incumbent's path a line. Plain SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from autotune.report.facts import Dot

__all__ = ["tradeoff_svg"]

_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 24, 20, 56
_STYLE = {
    "baseline": ("#b3452c", 6.5, "baseline"),
    "tried": ("#9aa3ad", 5.0, "tried"),
    "incumbent": ("#1f6f54", 6.5, "became the incumbent"),
    "confirm-A": ("#e2a08f", 4.0, "confirmation, baseline"),
    "confirm-B": ("#7fc3a6", 4.0, "confirmation, candidate"),
}


@dataclass(frozen=True, slots=True)
class _Axis:
    """A log scale from `low` to `high` onto `start`..`end` pixels."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values (1, 2, 5 times a power of ten) inside the range; the finer ones where the range is short."""
        for steps in ((1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0), tuple(1 + i / 10 for i in range(90))):
            exponents = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            found = [s * 10.0**e for e in exponents for s in steps if self.low <= s * 10.0**e <= self.high]
            if len(found) >= 3:
                return found[:: max(1, len(found) // 6)]
        return [self.low, self.high]


def tradeoff_svg(dots: Sequence[Dot], path: Sequence[str], objective: str, bound: float | None) -> str:
    """An SVG of 760 x 420 px. `bound` draws the promise as a dashed line. Both axes are logarithmic."""
    shown = [dot for dot in dots if dot.throughput > 0 and dot.latency > 0]
    if not shown:
        return ""
    x = _axis([dot.throughput for dot in shown], _LEFT, _WIDTH - _RIGHT)
    y = _axis([dot.latency for dot in shown] + ([bound] if bound else []), _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="Output throughput against {escape(objective)} of every trial" '
        'font-family="system-ui, sans-serif" font-size="12">'
    ]
    parts += _grid(x, y, objective)
    if bound:
        at = y.at(bound)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#555" '
            'stroke-dasharray="5 4"/>'
            f'<text x="{_WIDTH - _RIGHT}" y="{at - 5:.1f}" text-anchor="end" fill="#555">promise: {bound:g}</text>'
        )
    parts += _path(shown, path, x, y)
    for dot in sorted(shown, key=lambda d: list(_STYLE).index(d.kind), reverse=True):
        colour, radius, _ = _STYLE[dot.kind]
        title = f"{dot.id}: {dot.label} | {dot.throughput:.1f} tokens/s, {objective} {dot.latency:.1f}"
        parts.append(
            f'<circle cx="{x.at(dot.throughput):.1f}" cy="{y.at(dot.latency):.1f}" r="{radius}" fill="{colour}" '
            f'fill-opacity="0.85" stroke="white"><title>{escape(title)}</title></circle>'
        )
    parts += _legend({dot.kind for dot in shown})
    return "".join([*parts, "</svg>"])


def _axis(values: Sequence[float], start: float, end: float) -> _Axis:
    low, high = min(values), max(values)
    room = max((high / low) ** 0.08, 1.03)
    return _Axis(low / room, high * room, start, end)


def _grid(x: _Axis, y: _Axis, objective: str) -> list[str]:
    parts = []
    for tick in x.ticks():
        at = x.at(tick)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#e6e8eb"/>'
            f'<text x="{at:.1f}" y="{_HEIGHT - _BOTTOM + 17}" text-anchor="middle" fill="#555">{tick:g}</text>'
        )
    for tick in y.ticks():
        at = y.at(tick)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#e6e8eb"/>'
            f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end" fill="#555">{tick:g}</text>'
        )
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    parts.append(
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 22}" text-anchor="middle">output tokens/s</text>'
        f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">{escape(objective)}</text>'
    )
    return parts


def _path(dots: Sequence[Dot], path: Sequence[str], x: _Axis, y: _Axis) -> list[str]:
    by_id = {dot.id: dot for dot in dots}
    start = next((dot for dot in dots if dot.kind == "baseline"), None)
    steps = [*([start] if start else []), *(by_id[i] for i in path if i in by_id)]
    if len(steps) < 2:
        return []
    points = " ".join(f"{x.at(dot.throughput):.1f},{y.at(dot.latency):.1f}" for dot in steps)
    return [f'<polyline points="{points}" fill="none" stroke="#1f6f54" stroke-width="1.5" stroke-opacity="0.7"/>']


def _legend(kinds: set[str]) -> list[str]:
    parts, at = [], float(_LEFT)
    for kind, (colour, _, text) in _STYLE.items():
        if kind in kinds:
            parts.append(
                f'<circle cx="{at + 5}" cy="{_HEIGHT - 7}" r="4.5" fill="{colour}"/>'
                f'<text x="{at + 14}" y="{_HEIGHT - 3}" fill="#333">{text}</text>'
            )
            at += 28 + 6.8 * len(text)
    return parts
