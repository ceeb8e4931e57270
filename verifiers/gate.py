"""The gate: runs verifiers cheap to dear, and scores what they say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from verifiers import (
    accounting,
    duplicate,
    environment,
    feasibility,
    guardrails,
    identity,
    improvement,
    physics,
    planned,
    policy,
    quality,
    slo,
    soundness,
)
from verifiers.evidence import Evidence
from verifiers.rank_test import hodges_lehmann_ratio
from verifiers.verdict import Status, Verdict

__all__ = ["FAMILIES", "STAGES", "Judgement", "Stage", "judge"]

Stage = Literal["preflight", "trial", "confirm"]

STAGES: Mapping[Stage, tuple[Callable[[Evidence], Verdict], ...]] = MappingProxyType(
    {
        "preflight": (policy.verify, duplicate.verify, feasibility.verify),
        "trial": (identity.verify, accounting.verify, soundness.verify, physics.verify),
        "confirm": (
            policy.verify,
            feasibility.verify,
            planned.verify,
            environment.verify,
            identity.verify,
            accounting.verify,
            soundness.verify,
            physics.verify,
            improvement.verify,
            slo.verify,
            guardrails.verify,
            quality.verify,
        ),
    }
)
"""Which questions are asked when, cheap to dear: before a launch, after one trial, and of a whole confirmation."""

FAMILIES: frozenset[str] = frozenset(
    module.RULE.partition(".")[0]
    for module in (
        accounting,
        duplicate,
        environment,
        feasibility,
        guardrails,
        identity,
        improvement,
        physics,
        planned,
        policy,
        quality,
        slo,
        soundness,
    )
)
"""What comes before the dot of every rule that the gate asks; a playbook may require them by these names."""

_SEVERITY: tuple[Status, ...] = ("FAIL", "ERROR", "INCONCLUSIVE", "PASS")


@dataclass(frozen=True, slots=True)
class Judgement:
    """All verdicts of a stage, their worst, and a score in 0..1 to rank proposals by."""

    verdicts: tuple[Verdict, ...]
    status: Status
    score: float

    def to_json(self) -> dict[str, Any]:
        return {"verdicts": [v.to_json() for v in self.verdicts], "status": self.status, "score": self.score}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Judgement:
        return cls(tuple(Verdict.from_json(v) for v in data["verdicts"]), data["status"], data["score"])

    @property
    def refusal(self) -> Verdict | None:
        """The first verdict of the status that decided; None where all passed."""
        return next((v for v in self.verdicts if v.status == self.status), None) if self.status != "PASS" else None


def judge(stage: Stage, evidence: Evidence) -> Judgement:
    """Ask a stage's questions in order, up to the first FAIL: a dearer question then has nothing left to decide."""
    verdicts: list[Verdict] = []
    for verify in STAGES[stage]:
        verdicts.append(verify(evidence))
        if verdicts[-1].status == "FAIL":
            break
    status = min((verdict.status for verdict in verdicts), key=_SEVERITY.index)
    scored = stage == "confirm" and status == "PASS"
    return Judgement(tuple(verdicts), status, _score(evidence) if scored else 0.0)


def _score(evidence: Evidence) -> float:
    """Gates times gain: 0 unless every verdict passed, else the relative gain g of the objective as g / (1 + g) for a
    metric that should rise and 1 - ratio for one that should fall; both run from 0 (no gain) towards 1."""
    metric = evidence.deployment.objective.metric
    baseline, candidate = evidence.values("A", metric), evidence.values("B", metric)
    if not baseline or not candidate or min(*baseline, *candidate) <= 0:
        return 0.0
    ratio = hodges_lehmann_ratio(baseline, candidate)
    return max(0.0, 1 - ratio if evidence.deployment.objective.lower_is_better else 1 - 1 / ratio)
