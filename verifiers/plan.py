"""Plan: what the confirmation will measure, fixed and hashed before its first trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from tools.canonical import digest
from tools.deployment import Deployment

__all__ = ["Arm", "Block", "Plan", "Slot"]

Arm = Literal["A", "B"]


@dataclass(frozen=True, slots=True)
class Slot:
    """One launch of the confirmation. A is the baseline, B the candidate."""

    arm: Arm
    seed: int
    "Workload seed; all launches of a block measure the same requests."
    load_factor: float
    "Offered load as a share of the deployment's own."
    block: int


@dataclass(frozen=True, slots=True)
class Block:
    """Four launches that differ in nothing but the config, so that under the null any order was as likely."""

    order: str
    "ABBA or BAAB: a steady drift meets both arms alike."
    seed: int
    load_factor: float


@dataclass(frozen=True)
class Plan:
    """A confirmation: metric, least effect, level, and its blocks."""

    run: str
    baseline_digest: str
    candidate_digest: str
    metric: str
    min_effect: float
    alpha: float
    guardrails: Mapping[str, float]
    blocks: tuple[Block, ...]

    @classmethod
    def draw(cls, run: str, deployment: Deployment, baseline_digest: str, candidate_digest: str) -> Plan:
        """The plan that a deployment's acceptance section asks for.

        Seeds come from the run's id and the candidate, so neither a proposer nor the search can have seen them.
        """
        count = deployment.acceptance.trials_per_arm // 2
        drawn = [int(digest([run, candidate_digest, "confirm", number])[:12], 16) for number in range(count)]
        factors = (1.0, 0.8, 1.2) if drawn[0] % 2 else (1.0, 1.2, 0.8)
        blocks = (
            Block("ABBA" if number % 2 == 0 else "BAAB", seed, factors[number % 3]) for number, seed in enumerate(drawn)
        )
        return cls(
            run=run,
            baseline_digest=baseline_digest,
            candidate_digest=candidate_digest,
            metric=deployment.objective.metric,
            min_effect=deployment.objective.min_effect,
            alpha=deployment.acceptance.alpha,
            guardrails={rail.metric: rail.max_regression for rail in deployment.guardrails},
            blocks=tuple(blocks),
        )

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Every launch in the order of the plan."""
        return tuple(
            Slot("A" if arm == "A" else "B", block.seed, block.load_factor, number)
            for number, block in enumerate(self.blocks)
            for arm in block.order
        )

    @cached_property
    def digest(self) -> str:
        return digest(self.to_json())

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "blocks": [asdict(block) for block in self.blocks]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        return cls(**{**data, "blocks": tuple(Block(**block) for block in data["blocks"])})
