"""Noise: how launches of one config under one workload differ, learned from recorded A/A launches."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

from autotune.report_card.surface import Cell, Surface

__all__ = ["CALM", "Luck", "Noise", "noise_of"]


@dataclass(frozen=True, slots=True)
class Luck:
    """What one launch was dealt: factors on its times."""

    wait: float
    "On what a request takes to its first token once it is next."
    pace: float
    "On the gaps between tokens."
    jitter: tuple[float, ...]
    "On both, request by request; repeated where there are more requests."


CALM = Luck(1.0, 1.0, (1.0,))
"""No noise at all."""


@dataclass(frozen=True)
class Noise:
    """Residuals of recorded launches, as logarithms: drawn from as they are, no distribution assumed."""

    launches: tuple[tuple[float, float], ...]
    "(wait, pace) of a launch against the mean of its group."
    requests: tuple[float, ...]
    "Mean gap of a request against the same request in the group's other launches, the launches' own pace taken out."

    @classmethod
    def of(cls, recorded: Sequence[Cell]) -> Noise:
        """From launches; those of one config and seed form a group, and a group of one tells nothing.

        Residuals of a group of n are widened by sqrt(n / (n - 1)): about their own mean they are too small.
        """
        groups: defaultdict[tuple[object, ...], list[Cell]] = defaultdict(list)
        for cell in recorded:
            if cell.failure is None:
                groups[(*sorted(cell.at.items()), cell.seed)].append(cell)
        launches: list[tuple[float, float]] = []
        requests: list[float] = []
        for group in groups.values():
            if len(group) < 2:
                continue
            widened = math.sqrt(len(group) / (len(group) - 1))
            waits = [math.log(sum(cell.turns_s)) for cell in group]
            paces = [math.log(sum(sum(r.gaps_s) for r in cell.requests)) for cell in group]
            wait, pace = fmean(waits), fmean(paces)
            launches += [((w - wait) * widened, (p - pace) * widened) for w, p in zip(waits, paces, strict=True)]
            for same in zip(*(cell.requests for cell in group), strict=True):
                logs = [math.log(fmean(r.gaps_s)) - p for r, p in zip(same, paces, strict=True) if sum(r.gaps_s) > 0]
                requests += [(log - fmean(logs)) * widened for log in logs]
        return cls(tuple(launches), tuple(requests))

    def deal(self, random: Random, requests: int, *, scale: float = 1.0) -> Luck:
        """The luck of one launch. `scale` multiplies the logarithms of its launch's factors: 2 is a machine on which
        launches differ twice as much, 0 one without any luck."""
        if not self.launches or not scale:
            return CALM
        wait, pace = random.choice(self.launches)
        jitter = tuple(math.exp(random.choice(self.requests)) for _ in range(requests))
        return Luck(math.exp(scale * wait), math.exp(scale * pace), jitter)


def noise_of(surface: Surface) -> Noise:
    """What the surface's repeated launches say."""
    return Noise.of(surface.launches)
