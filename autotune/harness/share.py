"""Share: how much of a run belongs to the search, whatever a proposer says.

A proposer that learns nothing from what it sees must not be able to spend the whole budget, nor to end the exploring at
once: an agent with the harness is then no worse than the search with half the trials and the playbook's advice.
"""

from __future__ import annotations

from tools.ledger import Entry, LedgerView

__all__ = ["owed_to_search"]

_FREE = frozenset({"llm", "random"})
"Proposers whose words are their own. The expert's are the playbook's, which says itself when to search."


def owed_to_search(ledger: LedgerView, proposer: str, patience: int) -> int:
    """Trials that the search has to make before `proposer` is asked again: as many as the proposer has chosen and had,
    and `patience` in all once it wants to end the exploring. 0 for a proposer that is taken at its word."""
    if proposer not in _FREE:
        return 0
    launched = {str(entry.key).partition(":")[2] for entry in ledger.of_kind("preflight") if _passed(entry)}
    chosen = searched = least = 0
    for entry in ledger.of_kind("action"):
        kind, by_search = entry.data["action"]["kind"], bool(entry.data.get("by_search"))
        if kind == "finish" and not by_search:
            least = patience
        if kind in ("propose", "measure"):
            searched += by_search
            chosen += not by_search and str(entry.key).partition(":")[2] in launched
        elif kind == "finish" and by_search:
            searched = max(searched, chosen)  # it has nothing more to ask for
    return max(0, max(chosen, least) - searched)


def _passed(preflight: Entry) -> bool:
    """Whether a launch followed: what was refused before one took nothing from the search."""
    return bool(preflight.data["status"] == "PASS")
