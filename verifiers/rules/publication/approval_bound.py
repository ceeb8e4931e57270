"""Did a person approve exactly this change on exactly this judgement, where one has to?"""

from __future__ import annotations

from collections.abc import Mapping

from tools.canonical import digest
from tools.ledger import Entry
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "approval.bound"

GOOD_FOR_S = 7 * 86_400.0
"""Seconds from the request to its answer: a machine and its load may be others after that."""

PARTS: Mapping[str, str] = {
    "change": "the change",
    "base": "the base commit",
    "verdict": "the verdict",
    "verifiers": "the verifiers' code",
}
"""What an approval holds for, by the names that its request gives them."""


def verify(evidence: Evidence) -> Verdict:
    """Where the run was started with `approval: required`: one request, made of the change and the verdict as recorded,
    and one answer to it, later, that approves while all of that was still so. An answer to anything else is none.
    """
    started = evidence.of_kind("run.started")
    if not started:
        return error(RULE, "it isn't recorded whether an approval is required")
    if started[0].data["options"].get("approval", "none") != "required":
        return passed(RULE, "no approval is required in this run")
    requests, answers = evidence.of_kind("approval.request"), evidence.of_kind("approval")
    changes, verdicts = evidence.of_kind("change"), evidence.of_kind("verdict")
    if not (len(requests) == len(answers) == len(changes) == len(verdicts) == 1):
        return error(RULE, "an approval is required, and there isn't one request with one answer to it")
    request, answer, change, verdict = requests[0], answers[0], changes[0], verdicts[0]
    parts: Mapping[str, str] = {
        "change": digest(dict(change.data)),
        "base": change.data["current_head"],
        "verdict": digest(dict(verdict.data)),
        "verifiers": verdict.data["verifiers_digest"],
    }
    if wrong := _unbound(request, answer, parts):
        return failed(RULE, wrong)
    if not verdict.seq < change.seq < request.seq < answer.seq:
        return failed(RULE, "verdict, change, request and answer aren't in that order")
    if answer.data["decision"] == "approve" and answer.time - request.time > GOOD_FOR_S:
        return failed(RULE, f"it was answered more than {GOOD_FOR_S / 86_400:.0f} days after it was asked")
    if answer.data["decision"] != "approve":
        return failed(RULE, f"rejected by {answer.data['by']}: {answer.data['why'] or 'no reason given'}")
    return passed(RULE, f"{answer.data['by']} approved {request.data['digest'][:12]}, which is this change and verdict")


def _unbound(request: Entry, answer: Entry, parts: Mapping[str, str]) -> str:
    """Why the answer isn't to what would be committed; empty where it is."""
    asked = request.data["parts"]
    if asked.keys() != PARTS.keys() or request.data["digest"] != digest(dict(asked)):
        return "the request's digest isn't that of what it asks"
    if other := [name for name in PARTS if asked[name] != parts[name]]:
        return f"{PARTS[other[0]]} isn't what was asked about"
    if answer.data["digest"] != request.data["digest"]:
        return f"the answer is to {answer.data['digest'][:12]}, what was asked is {request.data['digest'][:12]}"
    moved = [name for name in PARTS if answer.data["now"].get(name) != parts[name]]
    if moved and answer.data["decision"] == "approve":
        return f"{PARTS[moved[0]]} had changed when it was answered"
    return ""
