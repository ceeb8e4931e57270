"""Neighbours: a config fares as the launched configs near it did."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from tools.oracle.lessons import Lesson
from tools.oracle.opinion import Opinion, learned
from tools.targets.knobs import Config, Knob, KnobSpace, Value
from tools.targets.target import FailureKind

__all__ = ["distance", "opinion"]

BANDWIDTH = 0.3
"""Distance at which a launch counts 0.61 of one at the same place; a third of one number's whole range."""
RAN_BEFORE, FAILED_BEFORE = 0.5, 0.05
"""What is believed before any launch, in launches: one in eleven fails."""
AUDIBLE = 0.05
"""Least weight of failures at which there is anything to say."""


def opinion(config: Config, lessons: Sequence[Lesson], knobs: KnobSpace) -> Opinion | None:
    """The Nadaraya-Watson estimate of the share that runs, with a Gaussian kernel over `distance` and a prior; None
    where no failure is near. It never rests on failures alone: the prior is always part of it."""
    ran, failed = 0.0, defaultdict[FailureKind, float](float)
    for lesson in lessons:
        weight = math.exp(-0.5 * (distance(config, lesson.config, knobs) / BANDWIDTH) ** 2)
        if lesson.kind is None:
            ran += weight
        else:
            failed[lesson.kind] += weight
    lost = sum(failed.values())
    if lost < AUDIBLE:
        return None
    kind = max(failed, key=lambda name: failed[name])
    return learned(
        (RAN_BEFORE + ran) / (RAN_BEFORE + FAILED_BEFORE + ran + lost),
        kind,
        f"of the launched configs near it {lost:.1f} failed (most: {kind}) and {ran:.1f} ran, weighted by nearness",
    )


def distance(one: Config, other: Config, knobs: KnobSpace) -> float:
    """Euclidean, over each knob's difference: of numbers as a share of the knob's range (of its logarithms where the
    knob is searched so), of anything else 0 or 1."""
    return math.sqrt(sum(_apart(knob, one.values.get(knob.name), other.values.get(knob.name)) ** 2 for knob in knobs))


def _apart(knob: Knob, one: Value | None, other: Value | None) -> float:
    if one == other and type(one) is type(other):
        return 0.0
    here, there = _place(knob, one), _place(knob, other)
    return 1.0 if here is None or there is None else min(abs(here - there), 1.0)


def _place(knob: Knob, value: Value | None) -> float | None:
    """Where a number lies in its knob's range, 0 to 1; None for what isn't a number in a range."""
    if value is None or isinstance(value, bool | str) or knob.low is None or knob.high is None or knob.low >= knob.high:
        return None
    if knob.log and knob.low > 0 and value > 0:
        return math.log(value / knob.low) / math.log(knob.high / knob.low)
    return (value - knob.low) / (knob.high - knob.low)
