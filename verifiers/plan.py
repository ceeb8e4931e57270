"""Plan: what the confirmation will measure and when it stops, fixed and hashed before its first trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from tools.canonical import digest
from tools.deployment import Acceptance, Deployment
from tools.measure.arrivals import Closed
from tools.measure.summary import lower_is_better
from tools.measure.workload import WorkloadSpec
from tools.service.load_spec import at_load
from verifiers.statistics.foresight import foreseen_power, least_blocks, log_gain
from verifiers.statistics.look import Design

__all__ = ["DESIGN", "LOOSEST", "Arm", "Block", "Plan", "Slot", "most_blocks"]

Arm = Literal["A", "B"]

DESIGN = "sequential-abba-2"
"The stopping rule's name: another rule gets another one, so that a plan never means something new."

LOOSEST = 0.1
"Highest level of any plan: at a higher one a single block could convince, and two launches an arm convince nobody."

_TARGET = 2.0
"A plan is made to find gains of so many least effects."


def most_blocks(acceptance: Acceptance, level: float) -> int:
    """Blocks that a confirmation may come to: what the owner allows, but no fewer than `level` needs at all."""
    return max(acceptance.trials_per_arm // 2, least_blocks(level))


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
    """A confirmation: metric, least effect, level, its blocks, and the rule by which it stops among them."""

    run: str
    baseline_digest: str
    candidate_digest: str
    metric: str
    min_effect: float
    alpha: float
    guardrails: Mapping[str, float]
    blocks: tuple[Block, ...]
    "As many as may be measured at the most."
    design: str = DESIGN
    attempts: int = 0
    "Earlier confirmations of the same change within a day."
    level: float = 0.0
    "Of this attempt: alpha, or the loosest level, divided by how many there are with it. Of three, 1.83 alpha in all."
    target: float = 0.0
    "Relative gain that the plan is made to find."
    noise: float | None = None
    "Relative standard deviation of the metric from launch to launch, as the baseline's launches showed it (A/A)."
    power: float | None = None
    "Foretold probability, at that noise, of accepting a true gain of `target`; None where the noise is unknown."

    @classmethod
    def draw(
        cls,
        run: str,
        deployment: Deployment,
        baseline_digest: str,
        candidate_digest: str,
        *,
        noise: float | None = None,
        attempts: int = 0,
    ) -> Plan:
        """The plan that a deployment's acceptance section asks for.

        Seeds come from the run's id and the candidate, so neither a proposer nor the search can have seen them.
        """
        acceptance, objective = deployment.acceptance, deployment.objective
        level = min(acceptance.alpha, LOOSEST) / (1 + attempts)
        count = most_blocks(acceptance, level)
        drawn = [int(digest([run, candidate_digest, "confirm", number])[:12], 16) for number in range(count)]
        wanted = (1.0, 0.8, 1.2) if drawn[0] % 2 else (1.0, 1.2, 0.8)
        factors = tuple(_offered(deployment.workload, factor) for factor in wanted)
        blocks = (
            Block("ABBA" if number % 2 == 0 else "BAAB", seed, factors[number % 3]) for number, seed in enumerate(drawn)
        )
        target = min(_TARGET * objective.min_effect, (1 + objective.min_effect) / 2)
        power = None
        if noise is not None:
            lower = objective.lower_is_better
            effect = log_gain(objective.min_effect, lower)
            power = round(foreseen_power(count, log_gain(target, lower), effect, noise, level), 3)
        return cls(
            run=run,
            baseline_digest=baseline_digest,
            candidate_digest=candidate_digest,
            metric=objective.metric,
            min_effect=objective.min_effect,
            alpha=acceptance.alpha,
            guardrails={rail.metric: rail.max_regression for rail in deployment.guardrails},
            blocks=tuple(blocks),
            attempts=attempts,
            level=level,
            target=target,
            noise=noise,
            power=power,
        )

    @property
    def stopping(self) -> Design:
        """The rule that is asked after each block."""
        return Design(lower_is_better(self.metric), self.min_effect, self.target, self.level, len(self.blocks))

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Every launch in the order of the plan, if it comes to all of them."""
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


def _offered(workload: WorkloadSpec, factor: float) -> float:
    """The load that asking for `factor` times the workload's gives: a burst has nothing to scale, seats are whole."""
    asked = at_load(workload, factor)
    if asked.digest == workload.digest:
        return 1.0
    if isinstance(asked.arrivals, Closed) and isinstance(workload.arrivals, Closed):
        return asked.arrivals.concurrency / workload.arrivals.concurrency
    return factor
