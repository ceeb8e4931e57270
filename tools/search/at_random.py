"""AtRandom: every turn a draw from the whole space. What every other strategy has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.search.observation import Observation, in_full
from tools.search.problem import Problem
from tools.search.turn import Turn
from tools.targets.knobs import Value

__all__ = ["AtRandom"]


@dataclass(frozen=True)
class AtRandom:
    """Learns nothing and believes nothing: priors and regions are left aside."""

    problem: Problem

    @property
    def name(self) -> str:
        return "random"

    def ask(self, history: Sequence[Observation]) -> dict[str, Value] | None:
        return Turn(self.problem, in_full(history)).at_random()
