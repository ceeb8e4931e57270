"""CrashOracle: whether a config will start and live, from formulas, the target's own checks and the run's launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Protocol

from tools.oracle import neighbours, outgrown, suspects
from tools.oracle.lessons import Lesson, lessons_of
from tools.oracle.opinion import MOST_CHANCE, Opinion
from tools.oracle.room import Room
from tools.oracle.step_time import StepTime
from tools.search.observation import Observation
from tools.search.problem import Forecast
from tools.targets.knobs import Config, KnobError, KnobSpace
from tools.targets.target import MemoryNeed

__all__ = ["CrashOracle", "Sizing"]

WORTH_SAYING = 0.9
"""Chance below which the reason for a doubt is told."""

_NOTHING = Opinion(MOST_CHANCE, "crash", "nothing is known against it")


class Sizing(Protocol):
    """The part of a Target that is asked."""

    def memory(self, config: Config) -> MemoryNeed:
        """What `config` needs, without launching it.

        Raises:
            KnobError: values that the target doesn't take, or that don't go together.
        """
        ...


@dataclass(frozen=True)
class CrashOracle:
    """Implements tools.search.problem.Oracle. Launches nothing, and answers the same for the same config."""

    target: Sizing | None
    "None: an engine without a formula; then nothing is certain, and lack of memory is learned like all else."
    room: Room | None
    "Of the machine; None where there is no formula to hold against it."
    knobs: KnobSpace
    "By which configs differ: the searched ones."
    lessons: tuple[Lesson, ...] = ()
    pace: StepTime | None = None
    promises: Mapping[str, float] = field(default_factory=dict)
    "Upper bounds by metric, as `Slo.bounds` gives them."

    @classmethod
    def of(cls, target: Sizing, knobs: KnobSpace, baseline: Config, memory_bytes: int) -> CrashOracle:
        """For a machine with `memory_bytes`, on which the owner's `baseline` runs.

        Raises:
            KnobError: the baseline itself is one that the target doesn't take.
        """
        return cls(target, Room.of(memory_bytes, target.memory(baseline).total_bytes), knobs)

    @classmethod
    def unsized(cls, knobs: KnobSpace) -> CrashOracle:
        """For an engine whose memory no formula tells."""
        return cls(None, None, knobs)

    def after(
        self, history: Sequence[Observation], baseline: Config, said: Mapping[str, str] = MappingProxyType({})
    ) -> CrashOracle:
        """This oracle with the trials of `history`, and no others, as what was learned.

        Args:
            said: the sentence of a failure by its config's digest: one that names a setting blames that setting.
        """
        return replace(self, lessons=lessons_of(history, baseline, said))

    def forecast(self, config: Config) -> Forecast:
        """`feasible` is False only where the closed formula or the target's own checks are sure; `chance` weighs the
        rest. The sentence gives the strongest reason, and which promises the step-time model sees missed."""
        opinions: list[Opinion] = []
        if self.target is not None and self.room is not None:
            try:
                need = self.target.memory(config)
            except KnobError as refusal:
                return Forecast(False, "bad_config", str(refusal), 0.0)
            fits = self.room.opinion(need)
            if fits.chance == 0.0:
                return Forecast(False, fits.kind, fits.sentence, 0.0)
            opinions += [fits, *_said(outgrown.opinion(need.total_bytes, *self._sizes))]
        opinions += self._likened(config)
        lowest = min(opinions, key=lambda opinion: opinion.chance, default=_NOTHING)
        doubted = lowest.chance < WORTH_SAYING
        told = [lowest.sentence if doubted else (opinions or [_NOTHING])[0].sentence, *self._missed(config)]
        return Forecast(True, lowest.kind if doubted else "", "; ".join(told), lowest.chance)

    def _likened(self, config: Config) -> Iterator[Opinion]:
        """By what the config shares with launches. Lack of memory has a formula, where there is one: what is left to
        likeness are the failures that it can't explain."""
        lessons = [lesson for lesson in self.lessons if self.target is None or lesson.kind != "oom"]
        yield from _said(suspects.opinion(config, lessons, self.knobs))
        yield from _said(neighbours.opinion(config, lessons, self.knobs))

    @cached_property
    def _sizes(self) -> tuple[list[int], list[int]]:
        """Bytes that launched configs needed by the formula: those that ran out of memory, and those that ran."""
        assert self.target is not None
        failed: list[int] = []
        ran: list[int] = []
        for lesson in self.lessons:
            if lesson.kind in ("oom", None):
                try:
                    size = self.target.memory(lesson.config).total_bytes
                except KnobError:
                    continue  # it was launched all the same; without a size it teaches nothing about sizes
                (ran if lesson.kind is None else failed).append(size)
        return failed, ran

    def _missed(self, config: Config) -> tuple[str, ...]:
        return self.pace.missed(config, self.promises) if self.pace is not None and self.promises else ()


def _said(opinion: Opinion | None) -> Iterator[Opinion]:
    if opinion is not None:
        yield opinion
