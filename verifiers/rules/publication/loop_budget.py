"""Did the run stay within its budget, counted anew?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.ledger import Entry
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "loop.budget"

_GRACE_S = 5.0
"From the harness's check of the clock to the entry that the launch is announced with."


def verify(evidence: Evidence) -> Verdict:
    """Nothing that costs was begun once a limit was reached. The budget that counts is the one its session had.

    Wall clock counts while a session is alive. A launch or an answer under way when a limit is reached may end.
    """
    count, budget = _Count(), None
    for entry in evidence.entries:
        if entry.kind == "session":
            budget = entry.data["budget"]
        if budget is None:
            if entry.kind in ("action", "trial.started", "trial"):
                return error(RULE, f"entry {entry.seq} was made before any session with a budget")
            continue
        count.at(entry)
        if entry.kind in ("trial.started", "action") and (over := count.over(budget, entry)):
            return failed(RULE, f"{over} when {entry.data.get('id', entry.key)} began")
        count.add(entry)
    if budget is None:
        return error(RULE, "no session recorded a budget")
    return passed(
        RULE,
        f"{count.trials} of {budget['trials']} trials, {count.turns} turns, {count.requests} of {budget['requests']} "
        f"requests, {count.tokens} LLM tokens, {count.wall_s:.0f} of {budget['wall_s']:.0f} seconds",
    )


class _Count:
    """What the entries so far add up to."""

    def __init__(self) -> None:
        self.trials = self.requests = self.tokens = self.turns = 0
        self.wall_s = 0.0
        self._last: float | None = None

    def at(self, entry: Entry) -> None:
        """Time passes until `entry`; not between sessions."""
        if self._last is not None and entry.kind != "session":
            self.wall_s += max(0.0, entry.time - self._last)
        self._last = entry.time

    def add(self, entry: Entry) -> None:
        data = entry.data
        if entry.kind == "trial":
            self.trials += data["role"] == "search"
            self.requests += data["requests"]
        elif entry.kind == "action":
            self.turns += 1
            usage = data.get("usage") or {}
            self.tokens += usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)

    def over(self, budget: Mapping[str, Any], entry: Entry) -> str:
        """The limit that was reached before `entry` spent anything, as a clause; empty where none was."""
        used: list[tuple[str, float, float]] = []
        if entry.kind == "trial.started":
            used = [("requests", self.requests, budget["requests"])]
            used += [("seconds", self.wall_s, budget["wall_s"] + _GRACE_S)]
            used += [("trials", self.trials, budget["trials"])] if entry.data["role"] == "search" else []
        else:
            used += [("turns", self.turns, budget["turns"])] if "turns" in budget else []
            asked = (entry.data.get("usage") or {}).get("calls", 0)
            used += [("LLM tokens", self.tokens, budget["llm_tokens"])] if asked else []
        for name, spent, limit in used:
            if spent >= limit:
                return f"{spent:.0f} of {limit:.0f} {name} were spent"
        return ""
