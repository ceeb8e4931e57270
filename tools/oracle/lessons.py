"""Lesson: what one launch has taught about its config."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast, get_args

from tools.search.observation import Observation
from tools.targets.knobs import Config
from tools.targets.target import FailureKind

__all__ = ["Lesson", "lessons_of"]

_NO_FAULT_OF_THE_CONFIG = frozenset({"port_taken", "model_missing"})


@dataclass(frozen=True, slots=True)
class Lesson:
    """A config that was launched and ran, or failed."""

    config: Config
    kind: FailureKind | None = None
    "Of its failure; None: it ran."
    said: str = ""
    "What its server said as it failed: it may name the settings to blame."


def lessons_of(
    history: Iterable[Observation], baseline: Config, said: Mapping[str, str] = MappingProxyType({})
) -> tuple[Lesson, ...]:
    """What a run's trials teach; what was refused before a launch, or spoilt by the harness, teaches nothing.

    Args:
        said: the sentence of a failure by its config's digest, where it is known.
    """
    lessons = []
    for seen in history:
        config = baseline.patched(seen.patch)
        if seen.kind in get_args(FailureKind):
            if seen.kind not in _NO_FAULT_OF_THE_CONFIG:
                lessons.append(Lesson(config, cast(FailureKind, seen.kind), said.get(config.digest, "")))
        elif seen.objective is not None:
            lessons.append(Lesson(config))
    return tuple(lessons)
