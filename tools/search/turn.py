"""Turn: one question to a strategy: what has been tried, what may be proposed, and the randomness it may use."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from random import Random

from tools.search.observation import Observation
from tools.search.problem import Forecast, Problem
from tools.targets.knobs import Value

__all__ = ["Key", "Turn", "key_of"]

Key = tuple[tuple[str, str, Value], ...]
"""What tells one patch from another: names, types and values. True and 1 are equal in Python, but not to a server."""

_FIRM = 0.5
"Weight above which a prior is tried unasked. One that is no more than a guess has to be expected to gain."

_DRAWS = 64
"Draws before a space is taken for nearly exhausted."

_ENUMERABLE = 20_000
"Configs in the largest space that is worth listing to find the untried rest."


@dataclass(frozen=True)
class Turn:
    """Everything that the answer to one `ask` may depend on."""

    problem: Problem
    history: Sequence[Observation]
    _forecasts: dict[Key, Forecast] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def number(self) -> int:
        """Search turns taken so far; what others asked for isn't one."""
        return sum(seen.from_search for seen in self.history)

    @cached_property
    def tried(self) -> frozenset[Key]:
        """Keys of the patches that were tried, the baseline's own among them."""
        space = self.problem.space
        return frozenset(key_of(space.reduce(seen.patch)) for seen in self.history) | {key_of({})}

    @property
    def seed(self) -> int:
        """32 bits; a turn's draws don't depend on how many draws an earlier turn needed."""
        return int.from_bytes(hashlib.sha256(f"{self.problem.seed}/{self.number}".encode()).digest()[:4], "big")

    def forecast(self, patch: Mapping[str, Value]) -> Forecast | None:
        """What the oracle says of `patch`; None where there is no oracle."""
        oracle = self.problem.oracle
        if oracle is None:
            return None
        key = key_of(patch)
        if key not in self._forecasts:
            self._forecasts[key] = oracle.forecast(self.problem.baseline.patched(patch))
        return self._forecasts[key]

    def is_new(self, patch: Mapping[str, Value]) -> bool:
        """Whether a reduced `patch` wasn't tried."""
        return key_of(patch) not in self.tried

    def may_try(self, patch: Mapping[str, Value]) -> bool:
        """Whether a reduced `patch` is new and no oracle refuses it."""
        if not self.is_new(patch):
            return False
        forecast = self.forecast(patch)
        return forecast is None or forecast.feasible

    def priors(self) -> Iterator[dict[str, Value]]:
        """The patches that somebody firmly believes in and that may be tried, the heaviest first."""
        for prior in sorted(self.problem.priors, key=lambda prior: -prior.weight):
            if prior.weight > _FIRM and self.problem.space.point(prior.patch) is not None:
                patch = self.problem.space.reduce(prior.patch)
                if self.may_try(patch):
                    yield patch

    def first_of(self, draw: Callable[[], dict[str, Value]]) -> dict[str, Value] | None:
        """The first patch that `draw` yields and that may be tried; None after many that may not."""
        patches = (draw() for _ in range(_DRAWS))
        return next((patch for patch in patches if self.may_try(patch)), None)

    def at_random(self) -> dict[str, Value] | None:
        """A patch drawn from the whole space, whatever was learned; None when it is exhausted."""
        random = Random(self.seed)
        drawn = self.first_of(lambda: self.problem.space.draw(random))
        return drawn if drawn is not None else self._untried(random)

    def _untried(self, random: Random) -> dict[str, Value] | None:
        space = self.problem.space
        if space.size > _ENUMERABLE:
            return None
        rest = [patch for patch in islice(space.every_patch(), _ENUMERABLE) if self.may_try(patch)]
        return random.choice(rest) if rest else None


def key_of(patch: Mapping[str, Value]) -> Key:
    return tuple((name, type(value).__name__, value) for name, value in sorted(patch.items()))
