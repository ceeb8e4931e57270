"""Pareto: two objectives at once. Lower is better in both; turn the sign of one that should be high."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["dominates", "front", "hypervolume", "knee", "scalarised"]

Point = tuple[float, float]

_WEIGHTS = 7
"Directions that are taken in turn: enough that a front's ends and its middle all get trials within a dozen."

_AUGMENT = 0.05
"Share of the sum in the scalar, so that a point that is dominated ranks behind (Knowles 2006)."


def dominates(one: Point, other: Point) -> bool:
    """Whether `one` is nowhere worse than `other`, and somewhere better."""
    return one[0] <= other[0] and one[1] <= other[1] and one != other


def front(points: Sequence[Point]) -> list[int]:
    """Places of the points that no other dominates, in ascending order of the first objective; equal points once."""
    order = sorted(range(len(points)), key=lambda place: points[place])
    found: list[int] = []
    least = math.inf
    for place in order:
        if points[place][1] < least:
            found.append(place)
            least = points[place][1]
    return found


def hypervolume(points: Sequence[Point], reference: Point) -> float:
    """Area that the points dominate, up to `reference`; points beyond it count for nothing."""
    inside = [point for point in points if point[0] < reference[0] and point[1] < reference[1]]
    area, ceiling = 0.0, reference[1]
    for place in front(inside):
        x, y = inside[place]
        area += (reference[0] - x) * (ceiling - y)
        ceiling = y
    return area


def knee(points: Sequence[Point]) -> int:
    """Place of the point on the front that lies farthest below the line between its ends, both axes scaled to 1.

    Raises:
        ValueError: no points.
    """
    places = front(points)
    if not places:
        raise ValueError("a knee needs at least one point")
    first, last = points[places[0]], points[places[-1]]
    width, height = last[0] - first[0], first[1] - last[1]
    if len(places) < 3:
        return places[0]

    def below(place: int) -> float:
        x, y = points[place]
        return 1 - (x - first[0]) / width - (y - last[1]) / height

    return max(places, key=below)


def scalarised(points: Sequence[Point | None], number: int) -> list[float | None]:
    """One objective out of two for turn `number`, lower is better: any strategy then walks along the front.

    Each turn looks in another direction (ParEGO; Knowles 2006): the larger of the two weighted objectives, scaled to
    what was seen, and a little of their sum. None stays None.
    """
    seen = [point for point in points if point is not None]
    if not seen:
        return [None for _ in points]
    low = [min(point[axis] for point in seen) for axis in (0, 1)]
    span = [(max(point[axis] for point in seen) - low[axis]) or 1.0 for axis in (0, 1)]
    # 0, 1, 1/2, 1/4 ... would leave the middle to the last; a stride that is prime to their number visits all.
    weight = (number * 3 % _WEIGHTS) / (_WEIGHTS - 1)

    def scalar(point: Point) -> float:
        parts = [share * (point[axis] - low[axis]) / span[axis] for axis, share in ((0, weight), (1, 1 - weight))]
        return 1.0 + max(parts) + _AUGMENT * sum(parts)

    return [None if point is None else scalar(point) for point in points]
