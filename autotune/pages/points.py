"""Points: what a line is drawn through, thinned so that a page of a million requests stays small."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

__all__ = ["Point", "finite", "pieces", "staircase", "thinned"]

Point = tuple[float, float]

_MOST = 700


def finite(point: Point) -> bool:
    return math.isfinite(point[0]) and math.isfinite(point[1])


def pieces(points: Iterable[Point]) -> list[list[Point]]:
    """The stretches of `points` between those that aren't finite."""
    found: list[list[Point]] = [[]]
    for point in points:
        if finite(point):
            found[-1].append(point)
        elif found[-1]:
            found.append([])
    return found


def staircase(points: Sequence[Point]) -> list[Point]:
    """The corners of a line that keeps each point's height until the next point."""
    corners = list(points[:1])
    for (_, before), (at, after) in pairwise(points):
        corners += [(at, before), (at, after)]
    return corners


def thinned(points: Sequence[Point]) -> list[Point]:
    """At most _MOST points or so: of each stretch its lowest and its highest, so that no peak is lost."""
    if len(points) <= _MOST:
        return list(points)
    size = math.ceil(2 * len(points) / _MOST)
    kept = [points[0]]
    for start in range(0, len(points), size):
        stretch = range(start, min(start + size, len(points)))
        ends = {min(stretch, key=lambda i: points[i][1]), max(stretch, key=lambda i: points[i][1])}
        kept += [points[index] for index in sorted(ends)]
    return [*kept, points[-1]]
