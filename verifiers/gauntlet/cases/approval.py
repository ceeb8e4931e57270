"""Attacks on approvals (class E08): answers to something else, to what was edited since, or that were none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.canonical import digest
from tools.ledger import Entry
from verifiers.evidence import Evidence
from verifiers.gauntlet.case import Case
from verifiers.gauntlet.edit import with_change, with_data, with_entries
from verifiers.gauntlet.honest import usual

__all__ = ["CASES", "approved"]


def approved() -> Evidence:
    """The usual run, had its owner asked for an approval and given it: honest."""
    required = with_data(
        usual(),
        "run.started",
        lambda entry: {**entry.data, "options": {**entry.data["options"], "approval": "required"}},
    )
    verdict, change = required.of_kind("verdict")[0], required.of_kind("change")[0]
    parts = {
        "change": digest(dict(change.data)),
        "base": change.data["current_head"],
        "verdict": digest(dict(verdict.data)),
        "verifiers": verdict.data["verifiers_digest"],
    }
    request = {"digest": digest(parts), "parts": parts, "file": change.data["file"], "changes": {}}
    answer = {"decision": "approve", "digest": request["digest"], "by": "owner", "why": "", "now": parts}

    def later(kind: str, data: Mapping[str, Any], after_s: float) -> Entry:
        return Entry(0, change.time + after_s, kind, kind, data, "", "")

    written = later("approval.request", request, 0.1), later("approval", answer, 3600.0)
    return with_entries(required, lambda entries: (*entries, *written))


def _answered(**fields: Any) -> Evidence:
    return with_data(approved(), "approval", lambda entry: {**entry.data, **fields})


def _edited_since() -> Evidence:
    run = approved()
    assert run.change is not None
    return with_change(run, message=f"{run.change.message}\n\nAs agreed with the platform team.")


CASES: tuple[Case, ...] = (
    Case(
        "r19",
        "E08",
        "approval.bound",
        "an approval of an earlier change is shown again",
        lambda: _answered(digest=digest("the change of last week")),
    ),
    Case("r20", "E08", "approval.bound", "the message was edited after it was approved", _edited_since),
    Case(
        "r21",
        "E08",
        "approval.bound",
        "turned down, and published all the same",
        lambda: _answered(decision="reject", why="not now"),
    ),
)
