"""Observation: one trial as a search sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tools.targets.knobs import Value

__all__ = ["Observation", "in_full"]


@dataclass(frozen=True, slots=True)
class Observation:
    """One trial as a search sees it: what was asked for, what came of it and what it cost."""

    patch: Mapping[str, Value]
    "Against the baseline; empty for the baseline itself."
    objective: float | None
    "None where nothing was measured: a crash, an OOM, a refusal."
    feasible: bool
    "False: the config can't run or can't be allowed, whatever its figures."
    constraints: Mapping[str, float] = field(default_factory=dict)
    "Violation per promise, relative to its bound: (value - bound) / bound. Zero or less is kept."
    from_search: bool = True
    "False for a trial that a playbook, a person or an LLM asked for; it teaches, and isn't counted as a search turn."
    seconds: float = 0.0
    "Wall clock from launch to stopped. 0: not known, or nothing was launched."
    fidelity: float = 1.0
    "Share of a full trial's requests that it was sent; above 0, at most 1."
    kind: str = ""
    "Of the failure, in the target's words: oom, bad_config, timeout ... Empty where it ran."

    @property
    def ran(self) -> bool:
        """Whether its objective may be believed and its config be used, promises aside."""
        return self.feasible and self.objective is not None

    @property
    def kept(self) -> bool:
        """Whether it ran and kept every promise."""
        return self.ran and all(violation <= 0 for violation in self.constraints.values())


def in_full(history: Sequence[Observation]) -> list[Observation]:
    """The full trials of `history`: what a config does in a cheap one is another quantity, and isn't mixed with it."""
    return [seen for seen in history if seen.fidelity == 1.0]
