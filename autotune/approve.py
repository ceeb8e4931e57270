"""Approve: what a run that waits asks for, and a person's answer to exactly that."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from autotune.harness.answer import Answer
from autotune.harness.rundir import RunDir
from tools.errors import UserError
from tools.ledger import Entry, Ledger, LedgerView
from tools.redaction import printable

__all__ = ["Asked", "asked_by", "given"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run asks for."""

    run: str
    digest: str
    "Of all that the answer will hold for; an approval has to name it."
    file: str
    changes: Mapping[str, tuple[Any, Any]]
    "Knob -> what stands there, what would."
    message: str
    "The commit's, with every verdict."

    def to_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__slots__}
        return {**plain, "changes": {name: list(values) for name, values in self.changes.items()}}

    def __str__(self) -> str:
        lines = [f"{self.run} asks to commit to {self.file}:", "", printable(self.message), ""]
        lines += [f"approve it:   autotune approve {self.run} --digest {self.digest}"]
        lines += [f"turn it down: autotune approve {self.run} --reject WHY"]
        return "\n".join(lines)


def asked_by(run: RunDir) -> Asked:
    """The request that `run` waits with.

    Raises:
        UserError: it asks for nothing, or it was answered.
    """
    ledger = Ledger.read(run.ledger)
    request, change = _open_request(run, ledger), ledger.find("change")
    assert change is not None
    return Asked(
        run=run.id,
        digest=request.data["digest"],
        file=request.data["file"],
        changes={name: (old, new) for name, (old, new) in request.data["changes"].items()},
        message=change.data["message"],
    )


def given(run: RunDir, *, digest: str | None, reject: str | None, by: str | None) -> Answer:
    """The answer that a person gives on the command line. Saying the same twice is no error: it is the same answer.

    Args:
        digest: of the request that is approved. A rejection needs none; one that is given has to fit.
        reject: why it is turned down; None approves.
        by: who says so; by default the login.

    Raises:
        UserError: the run asks for nothing, was answered otherwise, or asks for another digest; or a text that can't
            stand in a commit.
    """
    ledger = Ledger.read(run.ledger)
    decision: Literal["approve", "reject"] = "approve" if reject is None else "reject"
    before, request = ledger.find("approval"), ledger.find("approval.request")
    if before is None or request is None:
        request = _open_request(run, ledger)
    elif before.data["decision"] != decision:
        raise UserError(f"{run.id}: {before.data['by']} answered already: {before.data['decision']}")
    if digest is not None and digest != request.data["digest"]:
        raise UserError(
            f"{run.id}: the digest isn't that of what is asked now: expected {request.data['digest']}, found {digest}; "
            f"look at it with `autotune approve {run.id}`"
        )
    try:
        return Answer(decision=decision, digest=request.data["digest"], by=by or getpass.getuser(), why=reject or "")
    except ValidationError as error:
        problem = error.errors()[0]
        raise UserError(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}; say it in one short line") from None


def _open_request(run: RunDir, ledger: LedgerView) -> Entry:
    answer, request, finished = (ledger.find(key) for key in ("approval", "approval.request", "finished"))
    if answer is not None:
        raise UserError(f"{run.id}: {answer.data['by']} has answered: {answer.data['decision']}")
    if request is None:
        state = finished.data["sentence"] if finished else f"it hasn't come that far (autotune resume {run.id})"
        raise UserError(f"{run.id} asks for no approval: {state}")
    return request
