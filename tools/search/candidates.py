"""Candidates: the configs that a model is asked about: all of a small space, a sample of a large one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from random import Random

from tools.search.turn import Turn, key_of
from tools.targets.knobs import Value

__all__ = ["candidates", "neighbours", "walked"]

_MOST = 1200
"Configs that are looked at, besides the neighbours of the best."

_LISTED = 8192
"Configs of the largest space that is listed before it is sampled."


_WALKED = 2
"Best configs whose neighbours are all looked at."


def walked(turn: Turn) -> list[Mapping[str, Value]]:
    """The patches of the best few as measured, kept promises before all else."""
    sign = 1.0 if turn.problem.lower_is_better else -1.0
    ranked = [
        (not seen.kept, sign * seen.objective, seen.patch)
        for seen in turn.history
        if seen.ran and seen.objective is not None
    ]
    return [patch for _, _, patch in sorted(ranked, key=lambda rank: rank[:2])[:_WALKED]]


def candidates(turn: Turn, standing: Sequence[Mapping[str, Value]]) -> list[dict[str, Value]]:
    """Patches that weren't tried, each once: configs with every knob at one of its levels, in no telling order.

    All neighbours of `standing` are among them, the patches of the best configs so far.
    """
    space, random = turn.problem.space, Random(turn.seed)
    levels = {name: space.levels(name) for name in space.distributions}
    if math.prod(map(len, levels.values())) <= _LISTED:
        points = [dict(zip(levels, values, strict=True)) for values in itertools.product(*levels.values())]
    else:
        points = [{name: random.choice(values) for name, values in levels.items()} for _ in range(_MOST)]
    if len(points) > _MOST:
        points = random.sample(points, _MOST)
    near = [patch for best in standing for patch in neighbours(turn, best)]
    found = {key_of(patch): patch for patch in [*near, *(space.reduce(point) for point in points)]}
    return [patch for patch in found.values() if turn.is_new(patch)]


def neighbours(turn: Turn, patch: Mapping[str, Value]) -> Iterator[dict[str, Value]]:
    """The configs that differ from `patch` in one knob, which stands at another of its levels."""
    space = turn.problem.space
    point = space.point(patch)
    if point is None:
        return
    for name in space.distributions:
        for value in space.levels(name):
            if value != point[name] or type(value) is not type(point[name]):
                yield space.reduce({**point, name: value})
