"""Suspects: the values that only failed launches had, shared by a config that hasn't been launched."""

from __future__ import annotations

from collections.abc import Sequence

from tools.oracle.lessons import Lesson
from tools.oracle.opinion import Opinion, learned
from tools.targets.knobs import Config, Knob, KnobSpace, Value

__all__ = ["opinion"]

FIRMNESS = 0.9
"""Chance of failing where the one value that sets a failure apart is shared."""


def opinion(config: Config, lessons: Sequence[Lesson], knobs: KnobSpace) -> Opinion | None:
    """A failed launch blames, in equal shares, each knob whose value no launch that ran had: a choice that none had, a
    number beyond all of theirs; of these only the ones that its server named, where it named any. A config that shares
    a blamed value, or goes further, takes its share of the risk: the product over failures of
    1 - FIRMNESS x shared / blamed. None where nothing is shared.

    A value is cleared by the first launch that runs with it.
    """
    ran = [lesson.config for lesson in lessons if lesson.kind is None]
    if not ran:
        return None
    chance, worst = 1.0, (0.0, "", lessons[0])
    for lesson in lessons:
        if lesson.kind is None:
            continue
        apart = [knob for knob in knobs if _sets_apart(knob, lesson.config, ran)]
        blamed = [knob for knob in apart if _named(knob, lesson.said)] or apart
        shared = [knob for knob in blamed if _shares(knob, config, lesson.config, ran)]
        if shared:
            share = len(shared) / len(blamed)
            chance *= 1 - FIRMNESS * share
            told = ", ".join(f"{knob.name}={lesson.config.values[knob.name]}" for knob in shared)
            worst = max(worst, (share, told, lesson), key=lambda found: found[0])
    share, told, lesson = worst
    if not share or lesson.kind is None:
        return None
    return learned(chance, lesson.kind, f"a launch with {told} failed ({lesson.kind}), and none with it has run")


def _named(knob: Knob, said: str) -> bool:
    words = {word.strip("`'\".,:;()") for word in said.split()}
    return knob.name in words or (bool(knob.flag) and knob.flag in words)


def _sets_apart(knob: Knob, failed: Config, ran: Sequence[Config]) -> bool:
    value, others = failed.values.get(knob.name), [config.values.get(knob.name) for config in ran]
    if (number := _number(value)) is None:
        return value not in others
    known = [other for other in map(_number, others) if other is not None]
    return bool(known) and not min(known) <= number <= max(known)


def _shares(knob: Knob, config: Config, failed: Config, ran: Sequence[Config]) -> bool:
    """Whether `config` has the blamed value, or a number further away from those that ran."""
    value, blamed = config.values.get(knob.name), failed.values.get(knob.name)
    here, there = _number(value), _number(blamed)
    if here is None or there is None:
        return type(value) is type(blamed) and value == blamed
    above = there > max(number for number in (_number(c.values.get(knob.name)) for c in ran) if number is not None)
    return here >= there if above else here <= there


def _number(value: Value | None) -> float | None:
    return None if value is None or isinstance(value, bool | str) else float(value)
