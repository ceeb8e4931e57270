"""Does the run's record hang together: no turn lost, nothing measured unasked, nothing decided before its grounds?"""

from __future__ import annotations

from collections import Counter

from tools.ledger import Entry
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "loop.state_consistent"


def verify(evidence: Evidence) -> Verdict:
    """Turns 1, 2, 3 ...; each search trial has its turn's action and a preflight that passed before it, and a judgement
    after; finalist, plan, confirmation and verdict in that order and of one config; every count agrees."""
    by_key = {entry.key: entry for entry in evidence.entries if entry.key is not None}
    plan, verdict, finalist = (by_key.get(key) for key in ("plan", "verdict", "finalist"))
    if plan is None or verdict is None or finalist is None:
        return error(RULE, "finalist, plan or verdict isn't recorded")
    wrong = (
        _keys(evidence)
        or _turns(evidence, by_key)
        or _trials(evidence, by_key)
        or _ending(evidence, finalist, plan, verdict)
    )
    if wrong:
        return failed(RULE, wrong)
    turns, trials = len(evidence.of_kind("action")), len(evidence.of_kind("trial"))
    return passed(RULE, f"{turns} turns and {trials} trials follow from one another without a gap")


def _keys(evidence: Evidence) -> str:
    keys = Counter(entry.key for entry in evidence.entries if entry.key is not None)
    twice = [key for key, times in keys.items() if times > 1]
    return f"{twice[0]} is recorded twice" if twice else ""


def _turns(evidence: Evidence, by_key: dict[str, Entry]) -> str:
    actions = evidence.of_kind("action")
    for number, entry in enumerate(actions, start=1):
        if entry.key != f"action:{number}":
            return f"expected turn {number}, found {entry.key}: a decision is missing or out of order"
    for entry in evidence.of_kind("preflight"):
        action = by_key.get(f"action:{str(entry.key).partition(':')[2]}")
        if action is None or action.seq > entry.seq:
            return f"{entry.key} has no decision before it"
        kind, patch = action.data["action"]["kind"], action.data["action"].get("patch")
        if kind not in ("propose", "measure") or (patch is not None and patch != entry.data["proposal"]["patch"]):
            return f"{entry.key} is about something else than its decision"
    granted = sum(a.data["action"]["trials"] for a in actions if a.data["action"]["kind"] == "search")
    searched = [a for a in actions if a.data["action"]["kind"] == "propose" and a.data.get("by_search")]
    owed = sum(bool(a.data.get("owed")) for a in searched)
    if len(searched) > granted + owed:
        return f"the search made {len(searched)} proposals, {granted} were granted and {owed} owed to it"
    return ""


def _trials(evidence: Evidence, by_key: dict[str, Entry]) -> str:
    started = {entry.data["id"]: entry for entry in evidence.of_kind("trial.started")}
    for entry in evidence.of_kind("trial"):
        name, data = entry.data["id"], entry.data
        begun = started.get(name)
        if (
            begun is None
            or begun.seq > entry.seq
            or (begun.data["config"], begun.data["seed"]) != (data["config"], data["seed"])
        ):
            return f"trial {name} isn't the one that was announced"
        if data["role"] == "search":
            check = by_key.get(f"preflight:{name.removeprefix('t')}")
            if check is None or check.data["status"] != "PASS" or check.seq > begun.seq:
                return f"trial {name} was launched without a preflight that passed"
            if check.data["proposal"]["patch"] != data["proposal"]["patch"]:
                return f"trial {name} measured another proposal than the one that passed"
        if data["role"] in ("search", "baseline"):
            judged = by_key.get(f"judge:{name}")
            if judged is None or judged.seq < entry.seq:
                return f"trial {name} was never judged"
    return ""


def _ending(evidence: Evidence, finalist: Entry, plan: Entry, verdict: Entry) -> str:
    last_search = max((t.seq for t in evidence.of_kind("trial") if t.data["role"] == "search"), default=0)
    if not last_search < finalist.seq < plan.seq < verdict.seq:
        return "finalist, plan and verdict aren't in that order after the search"
    chosen = next((t for t in evidence.of_kind("trial") if t.data["id"] == finalist.data["trial"]), None)
    if chosen is None or chosen.data["role"] != "search" or chosen.data["proposal"]["patch"] != plan.data["patch"]:
        return "what was planned for confirmation isn't the finalist"
    late = [
        t.data["id"]
        for t in evidence.of_kind("trial")
        if t.data["role"] == "confirm" and not plan.seq < t.seq < verdict.seq
    ]
    return f"trial {late[0]} of the confirmation lies outside of it" if late else ""
