"""Approval: what a person is asked before a commit, and what their answer holds for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotune.harness.answer import Answer
from autotune.harness.change import change_of
from autotune.harness.context import Context
from tools.canonical import digest
from verifiers.digest import digest_on_disk
from verifiers.rules.publication.approval_bound import GOOD_FOR_S, PARTS

__all__ = ["as_it_is_now", "request_for", "voided"]


def request_for(context: Context) -> dict[str, Any]:
    """What is asked: the change in plain figures, and the digests of all that the answer will hold for."""
    change, plan = (context.ledger.find(key) for key in ("change", "plan"))
    assert change is not None and plan is not None
    diff = context.baseline.diff(context.baseline.patched(plan.data["patch"]))
    parts, manifest = _parts(context, dict(change.data)), change.data.get("manifest")
    return {
        "digest": digest(parts),
        "parts": parts,
        "file": " and ".join([change.data["file"], *([manifest["file"]] if manifest else [])]),
        "changes": {name: list(values) for name, values in diff.items()},
    }


def as_it_is_now(context: Context) -> dict[str, str]:
    """The digests of what an answer holds for, derived anew.

    Raises:
        UserError: the repository can't be read any more.
    """
    verdict = context.ledger.find("verdict")
    assert verdict is not None
    return _parts(context, change_of(context, verdict))


def voided(context: Context, answer: Answer, now: Mapping[str, str]) -> str | None:
    """Why `answer` can't count, a sentence; None where it does. `now` is what `as_it_is_now` gives."""
    request = context.ledger.find("approval.request")
    assert request is not None
    if answer.digest != request.data["digest"]:
        return f"the answer is to {answer.digest[:12]}, what is asked is {request.data['digest'][:12]}"
    if answer.decision == "reject":
        return None  # whatever has changed since, it may be turned down
    *_, last = context.ledger
    if last.time - request.time > GOOD_FOR_S:
        return f"what is asked is older than {GOOD_FOR_S / 86_400:.0f} days; reject it and tune again"
    if changed := [name for name in PARTS if now[name] != request.data["parts"][name]]:
        return f"{' and '.join(PARTS[name] for name in changed)} changed since it was asked; undo that, or reject it"
    return None


def _parts(context: Context, change: dict[str, Any]) -> dict[str, str]:
    verdict = context.ledger.find("verdict")
    assert verdict is not None
    return {
        "change": digest(change),
        "base": change["current_head"],
        "verdict": digest(dict(verdict.data)),
        "verifiers": digest_on_disk(),
    }
