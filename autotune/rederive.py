"""Rederive: every judgement of a record, derived anew from the raw records as they stood when it was given."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from autotune.harness.change import message_of
from autotune.harness.outcome import outcome_of
from tools.ledger import Entry, LedgerView
from verifiers import Evidence, Judgement, judge, look_after
from verifiers.machine import machine_of

__all__ = ["as_of", "rederived", "same"]

_JUDGES_CODE = frozenset({"integrity.harness"})
"""Rules that other code than the run's can't answer for it."""


def rederived(ledger: LedgerView, evidence: Evidence, verdict: Judgement | None, *, same_code: bool) -> Iterator[str]:
    """What doesn't follow from the raw records, a sentence each.

    Args:
        verdict: on the confirmation, derived anew; None where the run came to none.
        same_code: whether the verifiers are those of the run. Others may ask more and say it in other words, so that
            only the answers to the questions that both ask are compared.
    """
    actions = {entry.key: entry.data["action"]["kind"] for entry in ledger.of_kind("action")}
    for entry in ledger:
        then = as_of(evidence, entry.seq)
        derived: dict[str, Any] | None = None
        if entry.kind == "preflight":
            again = actions.get(f"action:{str(entry.key).partition(':')[2]}") == "measure"
            derived = None if again else _preflight(entry, then)
        elif entry.kind == "judgement":
            mine = then.about(t for t in then.search if t.id == entry.data["trial"] and t.measurement)
            derived = judge("trial", mine).to_json() if mine.trials else _unmeasured()
        elif entry.kind == "verdict" and verdict is not None:
            derived = verdict.to_json()
        elif entry.kind == "publication":
            derived = judge("publish", then, without=frozenset() if same_code else _JUDGES_CODE).to_json()
        elif entry.kind == "look":
            yield from _look(entry, then)
        if derived is not None and (wrong := _differs(entry.data, derived, same_code)):
            yield f"{_name(entry)}: {wrong}"
    yield from _rendered(ledger, evidence)


def as_of(evidence: Evidence, seq: int) -> Evidence:
    """The evidence that there was before entry `seq` was written."""
    entries = tuple(entry for entry in evidence.entries if entry.seq < seq)
    machine = machine_of(entries)
    before = replace(
        evidence,
        floors_ms=machine.floors_ms,
        roofline=machine.roofline,
        physics=machine.physics,
        trials=tuple(trial for trial in evidence.trials if trial.seq < seq),
        search=tuple(trial for trial in evidence.search if trial.seq < seq),
        extra=tuple(trial for trial in evidence.extra if trial.seq < seq),
        change=evidence.change if any(entry.seq < seq for entry in evidence.of_kind("change")) else None,
        entries=entries,
    )
    if evidence.plan is not None and evidence.plan_seq < seq:
        return before
    unplanned = replace(before, plan=None, plan_digest="", plan_seq=-1, attempts=())
    return replace(unplanned, candidate=None, patch={}, memory_need_bytes=None, trials=before.search)


def _preflight(entry: Entry, then: Evidence) -> dict[str, Any]:
    """A proposal's judgement; what the memory formula gave is the record's own word where the model isn't at hand."""
    patch = entry.data["proposal"]["patch"]
    candidate = then.baseline.patched(patch)
    need, unfit = entry.data.get("memory_need_bytes"), entry.data.get("unfit", "")
    proposed = replace(then.proposing(candidate, need, unfit=unfit), patch=patch)
    return judge("preflight", proposed).to_json()


def _unmeasured() -> dict[str, Any]:
    return {"verdicts": [], "status": "ERROR", "score": 0.0}


def _look(entry: Entry, then: Evidence) -> Iterator[str]:
    assert then.plan is not None
    found = look_after(then, then.plan, entry.data["blocks"])
    decided = found.to_json()["decision"] if found is not None else "exhausted"
    if decided != entry.data["decision"]:
        yield f"{entry.key}: recorded as {entry.data['decision']}, the raw records say {decided}"


def _differs(recorded: Mapping[str, Any], derived: Mapping[str, Any], same_code: bool) -> str:
    ours = {verdict["rule"]: verdict for verdict in derived["verdicts"]}
    theirs = {verdict["rule"]: verdict for verdict in recorded["verdicts"]}
    if same_code and recorded["status"] != derived["status"]:
        return f"recorded as {recorded['status']}, the raw records say {derived['status']}"
    for rule in [rule for rule in theirs if rule in ours]:
        if theirs[rule]["status"] != ours[rule]["status"]:
            return f"{rule} is recorded as {theirs[rule]['status']}, the raw records say {ours[rule]['status']}"
        if same_code and not same(ours[rule], dict(theirs[rule])):
            return f"{rule} said {theirs[rule]['sentence']!r}, the raw records say {ours[rule]['sentence']!r}"
    if same_code and (list(ours) != list(theirs) or not same(derived["score"], recorded["score"])):
        return "other questions were answered, or another score was given, than the raw records lead to"
    return ""


def _rendered(ledger: LedgerView, evidence: Evidence) -> Iterator[str]:
    """What the harness wrote from the ledger: the commit's message, and how the run ended."""
    verdict, change, finished = (ledger.find(key) for key in ("verdict", "change", "finished"))
    if change is not None and verdict is not None:
        changes = evidence.baseline.diff(evidence.baseline.patched(evidence.patch))
        message = message_of(evidence.deployment.name, changes, Judgement.from_json(verdict.data))
        if message != change.data["message"]:
            yield "the commit's message isn't what the verdict says"
    if finished is not None and dict(finished.data) != outcome_of(ledger):
        yield f"the run says it ended {finished.data['decision']}, which its verdicts don't bear out"


def _name(entry: Entry) -> str:
    return f"trial {entry.data['trial']}" if entry.kind == "judgement" else f"the {entry.key}"


def same(ours: Any, theirs: Any) -> bool:
    """Equal up to the rounding of the last digits, so that another build of the same arithmetic still agrees."""
    if isinstance(ours, float) and isinstance(theirs, int | float) and not isinstance(theirs, bool):
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[name], theirs[name]) for name in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(same(a, b) for a, b in zip(ours, theirs, strict=True))
    return bool(ours == theirs)
