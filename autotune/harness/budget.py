"""Budget: hard limits of a run, counted from its ledger so that a resumed run can't spend twice."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from agents.usage import Allowance, Usage
from autotune.harness.killswitch import Stopped
from tools.ledger import Entry, Ledger

__all__ = ["Budget", "Spent"]


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has used so far."""

    wall_s: float
    "Seconds that sessions of the run were alive; a pause between sessions doesn't count."
    trials: int
    requests: int
    llm: Usage
    "Of every turn that was asked for, the failed ones too."

    @property
    def llm_tokens(self) -> int:
        return self.llm.total_tokens


@dataclass(frozen=True, slots=True)
class Budget:
    """Hard stops held by the harness. `trials` bounds exploration; the confirmation's launches are planned apart."""

    wall_s: float = 900.0
    trials: int = 12
    requests: int = 100_000
    llm_tokens: int = 200_000
    llm_calls: int = 400
    "HTTP requests to the model, the refused and the repeated ones too."
    llm_usd: float | None = None
    "None: not limited. Where it is, no call is made whose price isn't known."
    turns: int = 60
    "Decisions of the proposer and the search: one that only looks, or only repeats itself, ends here."

    def with_trials(self, trials: int) -> Budget:
        """The budget with another number of trials, and turns enough for them: three each, an agent's, the search's own
        and one that only looks."""
        return replace(self, trials=trials, turns=max(self.turns, 3 * trials))

    def check(self, ledger: Ledger) -> None:
        """
        Raises:
            Stopped: a limit that ends the whole run is reached.
        """
        spent = self.spent(ledger)
        for name, used, limit in (
            ("wall clock seconds", spent.wall_s, self.wall_s),
            ("requests", spent.requests, self.requests),
        ):
            if used >= limit:
                raise Stopped(
                    f"budget: {used:.0f} of {limit:.0f} {name} are spent; resume with a larger budget to go on"
                )

    def spent(self, entries: Iterable[Entry]) -> Spent:
        """What the entries of a ledger add up to, the session that is alive included."""
        wall_s, trials, requests, llm = 0.0, 0, 0, Usage()
        start = last = None
        for entry in entries:
            if entry.kind == "session":
                wall_s += (last - start) if start is not None and last is not None else 0.0
                start = entry.time
            last = entry.time
            if entry.kind == "trial":
                trials += entry.data["role"] == "search"
                requests += entry.data["requests"]
            elif entry.kind == "action":
                llm += Usage.from_json(entry.data.get("usage", {}))
        if start is not None:
            wall_s += max(0.0, time.time() - start)
        return Spent(wall_s, trials, requests, llm)

    def allowance(self, ledger: Ledger) -> Allowance:
        """What is left for a model's answers."""
        return Allowance(self.llm_tokens, self.llm_calls, self.llm_usd).less(self.spent(ledger).llm)

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}
