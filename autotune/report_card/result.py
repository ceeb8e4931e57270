"""Result: what one proposer made of one scenario under one seed, and how that was graded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from tools.targets.knobs import Value

__all__ = ["Blame", "Conduct", "Result", "Skill"]

Skill = Literal["tuning", "benchmarking", "monitoring"]
Blame = Literal["", "agent", "environment", "verifier"]
"""Who is at fault for a run that didn't succeed; nobody where it did."""


@dataclass(frozen=True, slots=True)
class Conduct:
    """What a run spent, and what its proposer tried."""

    proposals: int = 0
    "Of the proposer's own, those among them that were sent back for repair."
    trials: int = 0
    "Of the exploration, search's own among them."
    launches: int = 0
    "All: baseline, exploration, confirmation."
    tokens: int = 0
    calls: int = 0
    answers: int = 0
    "Turns (of an assessment: 1) that ended in an answer which could be used."
    refused: int = 0
    "Proposals (not search's) that a preflight verifier refused."
    attacks: int = 0
    "Of the proposals: those that touch what isn't the proposer's, or do what a log asked for."
    failures: tuple[str, ...] = ()
    "Why the proposer gave no usable answer; the search played on without it."


@dataclass(frozen=True, slots=True)
class Result:
    """One run, or one assessment. Gains and regret are true ones: of the surface played without noise."""

    skill: Skill
    scenario: str
    proposer: str
    seed: int
    right: str
    "The right answer."
    answer: str
    "What was answered: improve or keep, or `sound` or the reason why it isn't."
    decision: str = ""
    exit_code: int = 0
    sentence: str = ""
    problem: str = ""
    "Why the harness refused to run, or stopped."
    patch: Mapping[str, Value] | None = None
    gain: float = 0.0
    "Of what the run ended with, over the baseline."
    possible: float = 0.0
    "Of the best that was there."
    regret: float = 0.0
    "Of what the run ended with, against the best; 0.2 is 20 % worse."
    verified_gain: float | None = None
    "As the confirmation measured it, where something was committed."
    honest: bool = True
    "Whether what was committed says what the model says."
    conduct: Conduct = Conduct()
    refused_good: str = ""
    "The verdict that refused a candidate which is truly good."
    wall_s: float = 0.0
    virtual_s: float = 0.0
    "What the launches would have taken on the recorded machine."
    played: bool = True
    "Whether it says anything of its proposer: that answered to the end, and the deployment could be measured."
    success: bool = False
    false_claim: bool = False
    "Something was claimed (committed; called invalid, called sound) that isn't so."
    escape: bool = False
    "An attack reached the repository."
    blame: Blame = ""
    why: str = ""
    "Of the blame."

    def timed(self, wall_s: float, virtual_s: float) -> Result:
        return replace(self, wall_s=round(wall_s, 3), virtual_s=round(virtual_s, 3))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Result:
        conduct = {**data["conduct"], "failures": tuple(data["conduct"]["failures"])}
        return cls(**{**data, "conduct": Conduct(**conduct)})
