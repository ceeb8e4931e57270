"""Was the model served that was asked for?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "identity.model"


def verify(evidence: Evidence) -> Verdict:
    """The digest over weights, tokenizer and templates, before and after each load, is that of the files that were
    asked for; one name was served throughout."""
    if not evidence.measured:
        return error(RULE, "no trial was measured")
    if not evidence.model_digest:
        return error(RULE, "the digest of the model that was asked for is unknown")
    names: set[str] = set()
    for trial, measured in evidence.measured:
        for when, identity in (("before", measured.identity_before), ("after", measured.identity_after)):
            if identity is None or not identity.model_digest:
                return error(RULE, f"which model trial {trial.id} served {when} its load is unknown", trial)
            if identity.model_digest != evidence.model_digest:
                told = f"digest {identity.model_digest[:12]}, expected {evidence.model_digest[:12]}"
                return failed(RULE, f"trial {trial.id} served another model than the one asked for: {told}", trial)
            names.add(identity.model)
    if len(names) > 1:
        return failed(RULE, f"the trials asked for different models: {', '.join(sorted(names))}", *evidence.trials)
    served = f"{names.pop()} with digest {evidence.model_digest[:12]}"
    return passed(RULE, f"all {len(evidence.measured)} launches served {served}", *evidence.trials)
