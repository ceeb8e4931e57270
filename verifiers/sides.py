"""Sides: what a question about a difference holds against each other."""

from __future__ import annotations

from dataclasses import dataclass

from tools.measure.measurement import Measurement
from verifiers.evidence import Evidence, TrialEvidence

__all__ = ["Sides", "sides"]

Measured = tuple[TrialEvidence, Measurement]


@dataclass(frozen=True, slots=True)
class Sides:
    """The measured trials of the baseline, and those of the candidate."""

    baseline: tuple[Measured, ...]
    candidate: tuple[Measured, ...]

    @property
    def unpaired(self) -> bool:
        """Whether there's a candidate and nothing to hold it against."""
        return bool(self.candidate) and not self.baseline

    @property
    def trials(self) -> tuple[TrialEvidence, ...]:
        return tuple(trial for trial, _ in (*self.baseline, *self.candidate))


def sides(evidence: Evidence) -> Sides:
    """The arms of a confirmation; of a single trial, the search's baseline trials and itself.

    A baseline trial that is judged by itself has no other side: then `candidate` is empty.
    """
    here = evidence.measured
    baseline = tuple(pair for pair in here if pair[0].arm == "A")
    if not baseline:
        known = ((trial, trial.measurement) for trial in evidence.search if trial.role == "baseline")
        baseline = tuple((trial, measured) for trial, measured in known if measured is not None)
    return Sides(baseline, tuple(pair for pair in here if pair[0].arm == "B"))
