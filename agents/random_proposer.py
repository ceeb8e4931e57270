"""RandomProposer: draws configs uniformly from the space. The floor that every proposer has to beat."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from agents.actions import Finish, Propose
from agents.proposer import Turn
from agents.view import View
from tools.targets.knobs import Knob, Value

__all__ = ["RandomProposer"]

_DRAWS = 64
"Tries to find a config that is new; a space that small is as good as exhausted."


@dataclass(frozen=True, slots=True)
class RandomProposer:
    """One draw a turn, from a seed and the number of trials so far: the answer depends on the view alone."""

    seed: int

    @property
    def name(self) -> str:
        return "random"

    def turn(self, view: View) -> Turn:
        """A config that wasn't tried yet; the end where none is found or nothing is left to spend."""
        if view.trials_left <= 0 or view.seconds_left <= 0:
            return Turn(Finish(reason="what there was to spend is spent"))
        random = Random(f"{self.seed}/{len(view.trials)}")
        for _ in range(_DRAWS):
            drawn = view.changes({knob.name: _draw(knob, random) for knob in view.space if knob.tunable})
            if drawn and view.tried_as(drawn) is None:
                return Turn(Propose(patch=drawn, hypothesis="drawn at random"))
        return Turn(Finish(reason="no config was drawn that is new"))


def _draw(knob: Knob, random: Random) -> Value:
    """Uniform over the knob's values; over their logarithms where the knob is searched so."""
    if knob.kind == "bool":
        return random.random() < 0.5
    if knob.kind == "choice":
        return random.choice(knob.choices)
    if knob.low is None or knob.high is None:
        return knob.default
    if knob.log and knob.low > 0:
        value = math.exp(random.uniform(math.log(knob.low), math.log(knob.high)))
        value = min(max(value, knob.low), knob.high)
    else:
        value = random.uniform(knob.low, knob.high)
    return round(value) if knob.kind == "int" else value
