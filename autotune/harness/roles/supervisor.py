"""The supervisor: says which role is next, from the ledger and the state alone.

It measures nothing and writes nothing: what it says follows from the record, so it isn't part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from langgraph.runtime import Runtime
from langgraph.types import Command

from autotune.harness.context import Context
from autotune.harness.state import State
from tools.ledger import LedgerView

__all__ = ["SUPERVISOR", "Assignment", "supervise", "supervisor"]

SUPERVISOR: Final = "supervisor"

Start = Literal["calibrate", "decide", "plan", "verdict", "publish"]
"""The nodes with which a role's work begins."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who is next, with which node, and why."""

    role: Literal["benchmarker", "tuner", "publisher"]
    node: Start
    why: str
    "A clause for people."


def supervise(state: State, ledger: LedgerView) -> Assignment:
    """Who is next. The ledger is believed; `state.asked` only says that a role considers its work done."""
    if ledger.find("budget") is None:
        return Assignment("benchmarker", "calibrate", "what the deployment does as it stands has to be known first")
    if ledger.find("plan") is not None and state.asked == "verdict":
        return Assignment("publisher", "verdict", "the confirmation has been measured")
    finalist = ledger.find("finalist")
    if finalist is not None and finalist.data["trial"] is None:
        return Assignment("publisher", "publish", "nothing is worth a confirmation")
    if state.asked == "plan" or finalist is not None:
        tried = sum(entry.data["role"] == "search" for entry in ledger.of_kind("trial"))
        return Assignment("benchmarker", "plan", f"the exploring has ended after {tried} trials")
    return Assignment("tuner", "decide", "the baseline is known, and there is a budget to find a better config")


def supervisor(state: State, runtime: Runtime[Context]) -> Command[Start]:
    """Tell who is next, and send the run there."""
    context = runtime.context
    next_up = supervise(state, context.ledger)
    context.progress.note(f"{next_up.role}: {next_up.why}")
    return Command(goto=next_up.node)
