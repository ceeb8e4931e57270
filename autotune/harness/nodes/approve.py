"""The approval: the run waits for a person, and what they answered goes into the ledger before anything follows."""

from __future__ import annotations

from typing import Literal

from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt

from autotune.harness.answer import Answer
from autotune.harness.approval import as_it_is_now, voided
from autotune.harness.context import Context
from autotune.harness.state import State, update

__all__ = ["answered", "approve"]


def approve(state: State, runtime: Runtime[Context]) -> Command[Literal["answered"]]:
    """Wait. An answer of another shape is refused by its schema, and the run still waits.

    Nothing else is done here: the node begins anew with each answer. Its effect follows in the next one.
    """
    request = runtime.context.ledger.find("approval.request")
    assert request is not None
    answer = interrupt(dict(request.data), response_schema=Answer)
    return Command(goto="answered", update=update(answer=answer.model_dump()))


def answered(state: State, runtime: Runtime[Context]) -> Command[Literal["publish", "approve"]]:
    """Record the answer if it is about what would be committed now; otherwise it is void, and the run waits on.

    A session can end before an answer is recorded. What is said in this one then counts, not what was said before.
    """
    context = runtime.context
    answer = context.answer or Answer.model_validate(state.answer)
    if context.ledger.find("approval") is None:
        now = as_it_is_now(context) if answer.decision == "approve" else {}
        if (void := voided(context, answer, now)) is not None:
            context.ledger.append("approval.void", {**answer.model_dump(), "void": void})
            context.progress.note(f"the answer is void: {void}")
            return Command(goto="approve", update=update(answer={}))
        context.effects.once("approval", "approval", lambda: {**answer.model_dump(), "now": now})
    return Command(goto="publish", update=update(answer={}))
