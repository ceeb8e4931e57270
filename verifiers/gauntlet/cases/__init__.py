"""The attacks, in files by what they lie about; written from the catalogue of attacks, none from a rule's code."""

from verifiers.gauntlet.case import Case
from verifiers.gauntlet.cases import (
    approval,
    conduct,
    design,
    identity,
    manifests,
    numbers,
    operation,
    outputs,
    proposals,
    publication,
    quality,
)

__all__ = ["CASES"]

CASES: tuple[Case, ...] = (
    *outputs.CASES,
    *numbers.CASES,
    *identity.CASES,
    *design.CASES,
    *quality.CASES,
    *proposals.CASES,
    *operation.CASES,
    *publication.CASES,
    *manifests.CASES,
    *approval.CASES,
    *conduct.CASES,
)
