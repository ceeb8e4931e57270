"""Case: an attack that its own rule must refuse; Control: an honest run that none may; Exam: what came of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from verifiers.catalogue import STAGES
from verifiers.evidence import Evidence
from verifiers.gauntlet.recall import Recall
from verifiers.rule import Stage
from verifiers.verdict import Verdict

__all__ = ["Case", "Control", "Exam", "Refusal", "examine"]

Build = Callable[[], Evidence]


@dataclass(frozen=True, slots=True)
class Case:
    """An attack: a run that is honest but for one lie."""

    id: str
    "Neutral: it never hints at the fault."
    attack: str
    "Its class in the catalogue of attacks."
    rule: str
    "The rule that must refuse it."
    lie: str
    "What isn't true, in a few words for people."
    build: Build


@dataclass(frozen=True, slots=True)
class Control:
    """An honest run. What isn't better may be refused for that, and for nothing else."""

    id: str
    what: str
    build: Build
    may_refuse: frozenset[str] = frozenset()
    "Rules that may say no, or that they can't tell."
    must_refuse: frozenset[str] = frozenset()
    "Rules of which at least one must, where there is no gain; empty where all must pass."

    @property
    def allowed(self) -> frozenset[str]:
        return self.may_refuse | self.must_refuse


@dataclass(frozen=True, slots=True)
class Refusal:
    """One rule that didn't say PASS at a stage."""

    stage: Stage
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Exam:
    """What every rule said of one run at every stage at which it is asked."""

    refusals: Mapping[str, Refusal]
    "By the rule's id: the first of each that wasn't a PASS."

    @property
    def refused_by(self) -> frozenset[str]:
        return frozenset(self.refusals)

    def accepted(self, without: str = "") -> bool:
        """Whether every stage passes if the rule `without` isn't asked. A stage passes where each rule says PASS, so
        what is left out decides exactly where nothing else refuses."""
        return self.refused_by <= {without}


def examine(evidence: Evidence, recall: Recall | None = None) -> Exam:
    """Ask every rule at every stage of the run, whatever the others said.

    Args:
        recall: what was said of other runs, so that nothing is asked twice.
    """
    recall = recall or Recall()
    refusals: dict[str, Refusal] = {}
    for stage, asked_about in _staged(evidence):
        for rule in STAGES[stage]:
            verdict = recall.ask(rule, asked_about)
            if verdict.status != "PASS":
                refusals.setdefault(verdict.rule, Refusal(stage, verdict))
    return Exam(refusals)


def _staged(evidence: Evidence) -> Iterator[tuple[Stage, Evidence]]:
    """The evidence as the harness would have it at each stage, one trial at a time where that is the question."""
    last = [trial.seq for trial in evidence.search if trial.config == evidence.candidate]
    tried = max(last, default=len(evidence.entries))
    before = tuple(trial for trial in evidence.search if trial.seq < tried)
    entries = tuple(entry for entry in evidence.entries if entry.seq < tried and entry.kind != "trial.started")
    nothing_yet: dict[str, Any] = {"plan": None, "plan_digest": "", "plan_seq": -1, "change": None, "extra": ()}
    yield "preflight", replace(evidence, trials=before, search=before, entries=entries, **nothing_yet)
    if evidence.plan is None:
        return  # it was never launched
    for trial in evidence.search:
        if trial.measurement is not None:
            yield "trial", evidence.about([trial])
    yield "confirm", evidence
    yield "publish", evidence
