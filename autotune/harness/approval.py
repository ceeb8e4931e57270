"""Approval: what a person is asked before a commit, what they answer, and what their answer holds for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from autotune.harness.change import change_of
from autotune.harness.context import Context
from tools.canonical import digest
from verifiers.digest import digest_on_disk
from verifiers.rules.publication.approval_bound import GOOD_FOR_S, PARTS

__all__ = ["Answer", "as_it_is_now", "request_for", "voided"]

_NAME_CHARS, _WHY_CHARS = 120, 400


class Answer(BaseModel):
    """What a person said, to which request. Anything that isn't exactly this is no answer."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    decision: Literal["approve", "reject"]
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    "Of the request that is answered."
    by: str = Field(min_length=1, max_length=_NAME_CHARS)
    "Who says so: a claim, as an author's name in git is one."
    why: str = Field(default="", max_length=_WHY_CHARS)

    @field_validator("by", "why")
    @classmethod
    def _one_line(cls, text: str) -> str:
        """They go into a commit's trailers and onto a terminal."""
        if not text.isprintable() or re.search(r"\s{2,}", text) or text != text.strip():
            raise ValueError("expected one line of printable text")
        return text


def request_for(context: Context) -> dict[str, Any]:
    """What is asked: the change in plain figures, and the digests of all that the answer will hold for."""
    change, plan = (context.ledger.find(key) for key in ("change", "plan"))
    assert change is not None and plan is not None
    diff = context.baseline.diff(context.baseline.patched(plan.data["patch"]))
    parts = _parts(context, dict(change.data))
    return {
        "digest": digest(parts),
        "parts": parts,
        "file": change.data["file"],
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
