"""Beliefs: where the proposer told the search to look, as it stands."""

from __future__ import annotations

from agents.actions import Weigh, WeighedRegion, parse_action
from tools.ledger import LedgerView

__all__ = ["beliefs", "may_weigh"]


def beliefs(ledger: LedgerView) -> tuple[WeighedRegion, ...]:
    """Of each knob, what was said last."""
    latest: dict[str, WeighedRegion] = {}
    for entry in ledger.of_kind("action"):
        action = parse_action(entry.data["action"]) if entry.data["action"]["kind"] == "weigh" else None
        if isinstance(action, Weigh):
            latest |= {region.knob: region for region in action.regions}
    return tuple(latest[name] for name in sorted(latest))


def may_weigh(ledger: LedgerView) -> bool:
    """Whether a trial was made since the last belief: words alone are not to use up the turns."""
    weighed = [entry.seq for entry in ledger.of_kind("action") if entry.data["action"]["kind"] == "weigh"]
    return not weighed or any(entry.seq > weighed[-1] for entry in ledger.of_kind("trial"))
