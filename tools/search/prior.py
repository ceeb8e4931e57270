"""Prior and Region: what somebody believes about a space before it is measured. Both weight, neither masks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tools.targets.knobs import Value

__all__ = ["Prior", "Region", "Source"]

Source = Literal["playbook", "agent", "past", "model"]
"""Who believes it: a playbook's advice, the proposer, earlier runs on similar deployments, or the memory model."""


@dataclass(frozen=True, slots=True)
class Prior:
    """A whole config that is worth an early trial, as a patch against the baseline."""

    patch: Mapping[str, Value]
    weight: float = 1.0
    "Above 0; heavier ones are tried first, equal ones in the order given."
    source: Source = "playbook"
    why: str = ""

    def __post_init__(self) -> None:
        if not self.weight > 0:
            raise ValueError(f"weight of a prior: expected more than 0, found {self.weight}")


@dataclass(frozen=True, slots=True)
class Region:
    """The belief that the best value of one knob lies between `low` and `high`, or among `choices`."""

    knob: str
    low: float | None = None
    "Inclusive; None: no bound below."
    high: float | None = None
    "Inclusive; None: no bound above."
    choices: tuple[Value, ...] = ()
    "For a knob that isn't a number, or single values of one that is. Empty: the bounds decide."
    weight: float = 0.5
    "How firmly it is believed, 0 (not at all) to 1 (as firmly as can be said)."
    why: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise ValueError(f"weight of a region: expected 0 to 1, found {self.weight}")
        if not self.choices and self.low is None and self.high is None:
            raise ValueError(f"region of {self.knob}: expected low, high or choices, found none of them")

    def holds(self, value: Value) -> bool:
        """Whether `value` lies in the region."""
        if self.choices:
            return any(type(value) is type(choice) and value == choice for choice in self.choices)
        if isinstance(value, bool | str):
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)
