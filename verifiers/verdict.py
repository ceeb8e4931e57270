"""Verdict: what a verifier answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

__all__ = ["Status", "Verdict", "error", "failed", "inconclusive", "passed"]

Status = Literal["PASS", "FAIL", "INCONCLUSIVE", "ERROR"]


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """One answer. `rule` is a stable id; `evidence` names the trials (or ledger entries) it rests on."""

    rule: str
    status: Status
    sentence: str
    evidence: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "status": self.status,
            "sentence": self.sentence,
            "evidence": list(self.evidence),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Verdict:
        return cls(data["rule"], data["status"], data["sentence"], tuple(data["evidence"]))


def _verdict(status: Status, rule: str, sentence: str, evidence: Iterable[_HasId]) -> Verdict:
    return Verdict(rule, status, sentence, tuple(item.id for item in evidence))


def passed(rule: str, sentence: str, *evidence: _HasId) -> Verdict:
    return _verdict("PASS", rule, sentence, evidence)


def failed(rule: str, sentence: str, *evidence: _HasId) -> Verdict:
    return _verdict("FAIL", rule, sentence, evidence)


def inconclusive(rule: str, sentence: str, *evidence: _HasId) -> Verdict:
    return _verdict("INCONCLUSIVE", rule, sentence, evidence)


def error(rule: str, sentence: str, *evidence: _HasId) -> Verdict:
    """The question could not be asked: data is missing or makes no sense. Never counted for or against a proposal."""
    return _verdict("ERROR", rule, sentence, evidence)
