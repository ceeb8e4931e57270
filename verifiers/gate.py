"""The gate: asks a stage's questions cheap to dear, and scores what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verifiers.catalogue import STAGES
from verifiers.digest import verifiers_digest
from verifiers.evidence import Evidence
from verifiers.rule import Rule, Stage
from verifiers.score import score
from verifiers.verdict import Status, Verdict, error

__all__ = ["MALFORMED", "Judgement", "judge"]

MALFORMED = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What evidence brings about that isn't of the shape in which the harness writes it: a forged record's, say."""

_SEVERITY: tuple[Status, ...] = ("FAIL", "ERROR", "INCONCLUSIVE", "PASS")


@dataclass(frozen=True, slots=True)
class Judgement:
    """All verdicts of a stage, their worst, and a score in 0..1 to rank proposals by."""

    verdicts: tuple[Verdict, ...]
    status: Status
    score: float
    verifiers_digest: str
    "Of the code that judged."

    def to_json(self) -> dict[str, Any]:
        return {
            "verdicts": [v.to_json() for v in self.verdicts],
            "status": self.status,
            "score": self.score,
            "verifiers_digest": self.verifiers_digest,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Judgement:
        verdicts = tuple(Verdict.from_json(v) for v in data["verdicts"])
        return cls(verdicts, data["status"], data["score"], data["verifiers_digest"])

    @property
    def refusal(self) -> Verdict | None:
        """The first verdict of the status that decided; None where all passed."""
        return next((v for v in self.verdicts if v.status == self.status), None) if self.status != "PASS" else None


def judge(
    stage: Stage, evidence: Evidence, *, without: frozenset[str] = frozenset(), exhaustive: bool = False
) -> Judgement:
    """Ask a stage's questions in order, up to the first FAIL: a dearer question then has nothing left to decide.

    Args:
        without: rule ids that aren't asked: by the harness before it pays for their proofs, by who
            derives a record anew with later code, by the gauntlet to see what each is for. A verdict leaves none out.
        exhaustive: ask every question whatever the others said, as the gauntlet does.
    """
    verdicts: list[Verdict] = []
    for rule in STAGES[stage]:
        if rule.id in without:
            continue
        verdicts.append(_asked(rule, evidence))
        if verdicts[-1].status == "FAIL" and not exhaustive:
            break
    given = {verdict.status for verdict in verdicts}
    status: Status = next((worst for worst in _SEVERITY if worst in given), "PASS")
    scored = stage == "confirm" and status == "PASS"
    return Judgement(tuple(verdicts), status, score(evidence) if scored else 0.0, verifiers_digest())


def _asked(rule: Rule, evidence: Evidence) -> Verdict:
    """The rule's verdict; ERROR where the evidence is of a shape that it can't be asked about."""
    try:
        return rule.verify(evidence)
    except MALFORMED as odd:
        return error(rule.id, f"the evidence isn't as the harness writes it ({type(odd).__name__}: {odd})")
