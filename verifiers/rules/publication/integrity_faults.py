"""Was a fault of the harness or the machine ever counted for or against a config?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verifiers.evidence import Evidence
from verifiers.faults import HARNESS_FAULTS
from verifiers.verdict import Verdict, error, failed, passed

RULE = "integrity.faults"

_SEVERITY = ("FAIL", "ERROR", "INCONCLUSIVE")


def verify(evidence: Evidence) -> Verdict:
    """What wasn't measured is judged ERROR, every judgement's status is the worst of its verdicts, and neither the
    finalist nor the confirmation rests on a trial without a measurement."""
    trials = {entry.data["id"]: entry for entry in evidence.of_kind("trial")}
    if not trials:
        return error(RULE, "no trial is recorded")
    for entry in evidence.entries:
        if entry.kind in ("judgement", "preflight", "verdict") and (wrong := _status(entry.data)):
            return failed(RULE, f"{entry.key}: {wrong}")
        if entry.kind != "judgement" or (trial := trials.get(entry.data["trial"])) is None:
            continue
        failure = trial.data["failure"]
        if failure and entry.data["status"] != "ERROR":
            whose = "the harness's own fault" if failure["kind"] in HARNESS_FAULTS else "a failed launch"
            return failed(RULE, f"{entry.data['trial']}: {whose} ({failure['kind']}) was judged {entry.data['status']}")
    finalist = next((entry.data["trial"] for entry in evidence.of_kind("finalist")), None)
    chosen = trials.get(finalist) if finalist else None
    if chosen is None:
        return error(RULE, "it isn't recorded which trial was confirmed")
    judged = {entry.data["trial"]: entry.data["status"] for entry in evidence.of_kind("judgement")}
    if chosen.data["failure"] or judged.get(finalist) != "PASS":
        return failed(RULE, f"{finalist} was chosen, and it was judged {judged.get(finalist, 'by nobody')}")
    for number, entry in enumerate(t for t in trials.values() if t.data["role"] == "confirm"):
        if entry.data["failure"]:
            kind = entry.data["failure"]["kind"]
            return failed(RULE, f"launch {number + 1} of the confirmation failed ({kind}) and was counted")
    faults = sum(bool(entry.data["failure"]) for entry in trials.values())
    return passed(RULE, f"{faults} failed launches of {len(trials)} count neither for nor against")


def _status(judgement: Mapping[str, Any]) -> str:
    """What is wrong with a judgement's status; nothing was asked of what wasn't measured."""
    given = {verdict["status"] for verdict in judgement["verdicts"]}
    worst = next((status for status in _SEVERITY if status in given), "PASS")
    if judgement["verdicts"] and judgement["status"] != worst:
        return f"its verdicts come to {worst}, it says {judgement['status']}"
    return ""
