"""Does the proposal leave alone what was changed a short while ago, and what a person set right after us?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tools.targets.knobs import Value
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "history.thrash"

COOL_DOWN_DAYS = 7.0
"""How long a change that this project committed stands before another may undo it."""

_DAY_S = 86_400.0


def verify(evidence: Evidence) -> Verdict:
    """No A -> B -> A: a value near what a recent commit of ours moved away from undoes that commit.

    Where a person changed a knob after one of our commits had, that is an answer, and it stands without a term. The
    harness records the file's commits as `history` of `run.started`, newest first: sha, at (Unix seconds), run (ours;
    empty for a person's), and changes as {knob: [before, after]}.
    """
    started = evidence.of_kind("run.started")
    if not started or "history" not in started[0].data:
        return error(RULE, "the ledger doesn't say which commits changed this deployment before")
    past = started[0].data["history"]
    try:
        undone = _undone(evidence, past, started[0].time)
    except (KeyError, TypeError, ValueError) as fault:
        return error(RULE, f"the record of earlier commits can't be read: {fault!r}")
    if undone:
        return failed(RULE, undone)
    return passed(RULE, f"undoes none of the {len(past)} commits of this deployment that are on record")


def _undone(evidence: Evidence, past: Sequence[Mapping[str, Any]], now: float) -> str:
    """The first commit that the candidate would undo, in words; empty where there is none."""
    for knob, value in sorted(evidence.changes.items()):
        touching = [commit for commit in past if knob in commit["changes"]]
        for index, commit in enumerate(touching):
            before, after = commit["changes"][knob]
            if value is None or not _undoes(value, before, after):
                continue
            age_days = (now - commit["at"]) / _DAY_S
            told = f"{knob}: {before!r} -> {after!r} was committed as {commit['sha'][:12]}"
            if commit["run"] and age_days < COOL_DOWN_DAYS:
                by = f"by run {commit['run']} {age_days:.1f} days ago"
                return f"{told} {by}; {value!r} would undo it within {COOL_DOWN_DAYS:g} days"
            if not commit["run"] and any(earlier["run"] for earlier in touching[index + 1 :]):
                return f"{told} by a person, after a change of ours; {value!r} would undo that"
    return ""


def _undoes(value: Value, before: Value | None, after: Value | None) -> bool:
    """Nearer to what stood before than to what the commit made of it; for what has no distance, the very same."""
    if _number(value) and _number(before) and _number(after):
        return abs(float(value) - float(before or 0)) < abs(float(value) - float(after or 0))
    return type(value) is type(before) and value == before


def _number(value: Value | None) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
