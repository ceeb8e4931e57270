"""Was every question asked that the deployment and the playbook require, and each answered by its own rule?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "integrity.all_asked"


def verify(evidence: Evidence) -> Verdict:
    """The verdict, and the judgement of each trial and proposal that passed, answers every question of its stage once.

    Nobody but the catalogue says which those are; a playbook may name families that have to be among them.
    """
    verdicts, started = evidence.of_kind("verdict"), evidence.of_kind("run.started")
    if not verdicts or not started or not evidence.asked:
        return error(RULE, "there is no verdict, or it isn't known which questions had to be asked")
    if len(verdicts) > 1:
        return failed(RULE, f"{len(verdicts)} verdicts are recorded; there may be one")
    if wrong := _missing(verdicts[0].data, evidence.asked["confirm"]):
        return failed(RULE, f"the verdict on the confirmation {wrong}")
    # A trial that is measured again passes without questions: its config has answered them.
    again = {f"preflight:{turn}" for turn, action in _actions(evidence) if action == "measure"}
    for kind, stage in (("judgement", "trial"), ("preflight", "preflight")):
        for entry in evidence.of_kind(kind):
            if entry.key in again or entry.data["status"] != "PASS":
                continue
            if wrong := _missing(entry.data, evidence.asked[stage]):
                return failed(RULE, f"{entry.key} {wrong}")
    families = {rule.partition(".")[0] for rule in evidence.asked["confirm"]}
    if absent := sorted(set(started[0].data["playbook"].get("verifiers", ())) - families):
        return failed(RULE, f"the playbook requires {', '.join(absent)}, which nobody asked")
    return passed(RULE, f"all {len(evidence.asked['confirm'])} questions of the confirmation were asked")


def _missing(judgement: Mapping[str, Any], rules: tuple[str, ...]) -> str:
    given = [verdict["rule"] for verdict in judgement["verdicts"]]
    if left_out := [rule for rule in rules if rule not in given]:
        return f"doesn't say what {', '.join(left_out[:3])} found"
    if foreign := [rule for rule in given if rule not in rules]:
        return f"holds {foreign[0]}, which isn't asked at that stage"
    return "answers a question twice" if len(given) != len(set(given)) else ""


def _actions(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Turn and kind of every recorded action."""
    for entry in evidence.of_kind("action"):
        yield str(entry.key).partition(":")[2], entry.data["action"]["kind"]
