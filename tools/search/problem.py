"""Problem: what is searched, from where, in which direction, and what is believed before the first trial."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from tools.search.prior import Prior, Region
from tools.search.space import SearchSpace
from tools.targets.knobs import Config, KnobSpace

__all__ = ["Forecast", "Oracle", "Problem"]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What an oracle says of a config that wasn't launched."""

    feasible: bool
    "False: it is certain enough not to run that no launch is spent on it."
    kind: str = ""
    "Of the failure that is foreseen; empty where none is."
    sentence: str = ""
    "Why, for people."
    chance: float = 1.0
    "That it runs, 0 to 1. Weighs where `feasible` leaves it open."


class Oracle(Protocol):
    """Foresees failures without launching. Answers at once, and the same for the same config."""

    def forecast(self, config: Config) -> Forecast: ...


@dataclass(frozen=True)
class Problem:
    """One search: the space, the baseline that patches are relative to, and all that is believed."""

    knobs: KnobSpace
    "Only its tunable knobs are searched."
    baseline: Config
    lower_is_better: bool
    seed: int
    explore_share: float = 0.25
    "Least share of search turns that ignore what was learned and believed; above 0, at most 1."
    priors: tuple[Prior, ...] = ()
    regions: tuple[Region, ...] = ()
    oracle: Oracle | None = field(default=None, compare=False)
    noise: float | None = None
    "Relative standard deviation of the objective between launches of one config; None: not known."
    min_effect: float = 0.0
    "Least relative gain worth having."

    def __post_init__(self) -> None:
        if not 0 < self.explore_share <= 1:
            raise ValueError(f"explore_share: expected more than 0 and at most 1, found {self.explore_share}")

    @cached_property
    def space(self) -> SearchSpace:
        """The knobs around the baseline, in the optimiser's terms."""
        return SearchSpace(self.knobs, self.baseline)
