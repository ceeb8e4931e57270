"""AssessRandom: any of the allowed answers, drawn uniformly from a seed and the case."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from random import Random

from agents.assessment import Assessed, Assessment, AssessView, reasons_for
from tools.canonical import digest

__all__ = ["AssessRandom"]


@dataclass(frozen=True, slots=True)
class AssessRandom:
    """What guessing is worth."""

    seed: int

    @property
    def name(self) -> str:
        return "random"

    def assess(self, view: AssessView) -> Assessed:
        random = Random(digest([self.seed, asdict(view)]))
        return Assessed(Assessment.of(random.choice(sorted(reasons_for(view))), "drawn at random"))
