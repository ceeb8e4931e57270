"""State: the little that the graph carries from node to node. Everything else is read from the ledger."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

__all__ = ["State", "update"]


class State(BaseModel):
    """Counters and routing only, so that a checkpoint is small and can't contradict the ledger."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    launches: int = 0
    "Baseline trials done."
    turn: int = 0
    "Decisions taken; names the trial that a decision leads to."
    queued: int = 0
    "Trials that a `search` action still grants the search."
    slot: int = 0
    "Confirmation trials done."
    asked: str = ""
    "The node that the last role ended in front of. Who is next, the supervisor says."
    answer: dict[str, str] = {}
    "What a person answered to the request for approval, on its way into the ledger."


def update(**changes: Any) -> dict[str, Any]:
    """`changes` as a node may return them.

    langgraph drops an unknown key silently and doesn't check the last node's types; this does both.

    Raises:
        pydantic.ValidationError: a key that State doesn't have, or a wrong type.
    """
    checked = State.model_validate(changes)
    return {name: getattr(checked, name) for name in changes}
