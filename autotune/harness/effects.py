"""Effects: whatever a run does to the world, done once, recorded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from autotune.harness.budget import Budget
from autotune.harness.killswitch import KillSwitch
from tools.ledger import Ledger
from tools.redaction import redacted_texts

__all__ = ["Boundary", "Effects"]

Boundary = Literal["before", "acted", "recorded"]

_OTHERS_WORDS = ("transcript", "proposer_failed", "failure")
"""Fields in which stands what a model, an endpoint or a server said: secrets are taken out before they are recorded.

Not an action itself: what was decided is recorded as it was said, and `change.secrets` judges it before it may leave.
"""


class Effects:
    """Each effect has an idempotency key: what the ledger holds under that key is never done again.

    `observe` is called at the three boundaries of each effect, with its key; a crash test kills the process there.
    """

    def __init__(
        self,
        ledger: Ledger,
        budget: Budget,
        kill_switch: KillSwitch,
        observe: Callable[[Boundary, str], None] = lambda boundary, key: None,
    ) -> None:
        self.ledger = ledger
        self.budget = budget
        self.kill_switch = kill_switch
        self._observe = observe

    def once(self, key: str, kind: str, act: Callable[[], dict[str, Any]], *, spends: bool = False) -> dict[str, Any]:
        """The recorded result of the effect `key`; carries it out and records it if there is none yet.

        Args:
            spends: it launches, loads or asks a model, so the budgets are checked first.

        Raises:
            Stopped: the kill switch is on or a budget is spent; nothing was done.
        """
        known = self.ledger.find(key)
        if known is not None:
            return dict(known.data)
        self.kill_switch.check()
        if spends:
            self.budget.check(self.ledger)
        self._observe("before", key)
        data = _discreet(act())
        self._observe("acted", key)
        self.ledger.append(kind, data, key=key)
        self._observe("recorded", key)
        return data


def _discreet(data: dict[str, Any]) -> dict[str, Any]:
    return {name: redacted_texts(value) if name in _OTHERS_WORDS else value for name, value in data.items()}
