"""Outcome: how a run ended, as its ledger says it did; `autotune verify` derives it anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.ledger import LedgerView
from verifiers import Judgement, Verdict
from verifiers.faults import HARNESS_FAULTS
from verifiers.rules.effect import improvement_primary

__all__ = ["candidate_failed", "outcome_of"]


def outcome_of(ledger: LedgerView) -> dict[str, Any]:
    """decision, exit_code and sentence of a run that came to its end."""
    verdict, finalist, publication, commit = (ledger.find(k) for k in ("verdict", "finalist", "publication", "commit"))
    if (proposed := ledger.find("proposed")) is not None:
        return {"decision": "proposed", "exit_code": 3, "sentence": _unmeasured(proposed.data)}
    if verdict is None:
        why = finalist.data["why"] if finalist else "nothing was tried"
        return {"decision": "unchanged", "exit_code": 0, "sentence": f"No commit: {why}."}
    judgement = Judgement.from_json(verdict.data)
    if judgement.refusal is not None:
        return _refused(ledger, judgement, judgement.refusal)
    published = Judgement.from_json(publication.data) if publication else None
    if published is not None and published.refusal is not None:
        kept = f"The change passed, and is not committed. {_sentence(published.refusal)}"
        if published.refusal.status == "ERROR":
            return {"decision": "error", "exit_code": 1, "sentence": kept}
        return {"decision": "refused", "exit_code": 2, "sentence": kept}
    where = f"committed {commit.data['sha'][:12]} on branch {commit.data['branch']}" if commit else "not committed"
    return {"decision": "tuned", "exit_code": 0, "sentence": f"PASS: {where}."}


def _unmeasured(proposed: Mapping[str, Any]) -> str:
    changes = ", ".join(f"{name} to {value}" for name, value in proposed["proposal"]["patch"].items())
    return (
        f"No commit: this target can't be given another config, so nothing but the one that serves was measured. "
        f"Proposed, and measured by nobody: set {changes} ({proposed['diff']} in the run's folder). "
        "With `apply:` in the deployment's target it would be measured."
    )


def candidate_failed(ledger: LedgerView) -> bool:
    """Whether the candidate didn't run in its confirmation, and by no fault of the harness."""
    failures = (
        e.data["failure"] for e in ledger.of_kind("trial") if e.data["role"] == "confirm" and e.data["arm"] == "B"
    )
    return any(failure and failure["kind"] not in HARNESS_FAULTS for failure in failures)


def _refused(ledger: LedgerView, judgement: Judgement, refusal: Verdict) -> dict[str, Any]:
    # Whether it is better is asked before what it costs: what isn't better is left alone, and nothing was refused.
    better = next((v for v in judgement.verdicts if v.rule == improvement_primary.RULE), None)
    shown = better if better is not None and better.status in ("FAIL", "INCONCLUSIVE") else refusal
    sentence = f"No commit, the baseline is kept. {_sentence(shown)}"
    if shown is better and better.status == "FAIL":
        return {"decision": "unchanged", "exit_code": 0, "sentence": sentence}
    if shown.status == "INCONCLUSIVE":
        return {"decision": "inconclusive", "exit_code": 3, "sentence": sentence}
    if shown.status == "ERROR" and not candidate_failed(ledger):
        # Not judged: a launch was spoilt, or the record lacks what a question needs. It says nothing of the change.
        return {"decision": "error", "exit_code": 1, "sentence": sentence}
    return {"decision": "refused", "exit_code": 2, "sentence": sentence}


def _sentence(verdict: Verdict) -> str:
    return f"{verdict.status} {verdict.rule}: {verdict.sentence}."
