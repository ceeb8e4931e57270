"""Recordings: what the launches of a confirmation said to the evaluation suite, arm by arm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tools.evals.declared import Loss
from tools.evals.likelihood import scoring_fault
from tools.evals.results import EvalResults, TaskResult
from verifiers.evidence import Evidence, TrialEvidence

__all__ = ["CONFORMANCE", "NEEDLE", "Recordings", "declared_loss", "recordings", "scores"]

CONFORMANCE = ("schemas", "tools")
"Task sets about the form of an answer, whatever it says."
NEEDLE = "needle"
"The task set about long prompts."


@dataclass(frozen=True)
class Recordings:
    """At least two launches of each arm, which were all asked the same."""

    baseline: tuple[EvalResults, ...]
    candidate: tuple[EvalResults, ...]
    trials: tuple[TrialEvidence, ...]

    def task(self, arm: str, name: str) -> list[TaskResult] | None:
        """What an arm's launches said to one task set; None where one of them wasn't asked."""
        launches = self.baseline if arm == "A" else self.candidate
        found = [launch.tasks[name] for launch in launches if name in launch.tasks]
        return found if len(found) == len(launches) else None


def recordings(evidence: Evidence) -> Recordings | str:
    """What both arms said, or why it can't be compared."""
    heard = [(trial, trial.evals) for trial in evidence.confirmation if trial.evals is not None]
    arms = {arm: tuple(evals for trial, evals in heard if trial.arm == arm) for arm in ("A", "B")}
    if min(len(launches) for launches in arms.values()) < 2:
        return "what two launches of each arm said to the evals is needed"
    if len({evals.suite for _, evals in heard}) > 1:
        return "the launches were asked different evals"
    faults = [fault for _, evals in heard for passage in evals.passages.values() if (fault := scoring_fault(passage))]
    if faults:
        return f"a passage wasn't scored: {faults[0]}"
    return Recordings(arms["A"], arms["B"], tuple(trial for trial, _ in heard))


def declared_loss(evidence: Evidence) -> Loss | None:
    """The loss that the deployment allows this change; None where it must lose nothing.

    Only a change of a knob that can lose something may: what says that it is lossless is held to it.
    """
    quality = evidence.deployment.quality
    lossy = {knob.name for knob in evidence.space if knob.outputs == "lossy"}
    return quality if isinstance(quality, Loss) and lossy & evidence.changes.keys() else None


def scores(results: Iterable[TaskResult]) -> list[Mapping[str, float]]:
    """Item to score, launch by launch."""
    return [{item: answer.score for item, answer in result.answers.items()} for result in results]
