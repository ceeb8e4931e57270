"""Plan: what the confirmation will measure, fixed and hashed before its first trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from tools.canonical import digest
from tools.deployment import Deployment

__all__ = ["Arm", "Plan", "Slot"]

Arm = Literal["A", "B"]


@dataclass(frozen=True, slots=True)
class Slot:
    """One launch of the confirmation. A is the baseline, B the candidate."""

    arm: Arm
    seed: int
    "Workload seed; each seed is measured once in each arm."


@dataclass(frozen=True)
class Plan:
    """A confirmation: metric, least effect, level, arms in ABBA blocks and their seeds."""

    run: str
    baseline_digest: str
    candidate_digest: str
    metric: str
    min_effect: float
    alpha: float
    guardrails: Mapping[str, float]
    slots: tuple[Slot, ...]

    @classmethod
    def draw(cls, run: str, deployment: Deployment, baseline_digest: str, candidate_digest: str) -> Plan:
        """The plan that a deployment's acceptance section asks for.

        Seeds come from the run's id and the candidate, so neither a proposer nor the search can have seen them.
        """
        per_arm = deployment.acceptance.trials_per_arm
        seeds = [int(digest([run, candidate_digest, "confirm", i])[:12], 16) for i in range(per_arm)]
        slots: list[Slot] = []
        for first, second in zip(seeds[::2], seeds[1::2], strict=True):
            slots += [Slot("A", first), Slot("B", first), Slot("B", second), Slot("A", second)]
        return cls(
            run=run,
            baseline_digest=baseline_digest,
            candidate_digest=candidate_digest,
            metric=deployment.objective.metric,
            min_effect=deployment.objective.min_effect,
            alpha=deployment.acceptance.alpha,
            guardrails={rail.metric: rail.max_regression for rail in deployment.guardrails},
            slots=tuple(slots),
        )

    @cached_property
    def digest(self) -> str:
        return digest(self.to_json())

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "slots": [asdict(slot) for slot in self.slots]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        return cls(**{**data, "slots": tuple(Slot(**slot) for slot in data["slots"])})
