"""SearchProposer: hands every trial to the numeric search. What agents are compared with."""

from __future__ import annotations

from dataclasses import dataclass

from agents.actions import Finish, Search
from agents.proposer import Turn
from agents.view import View

__all__ = ["SearchProposer"]

_MOST_AT_ONCE = 8
"What one action may ask for."


@dataclass(frozen=True, slots=True)
class SearchProposer:
    """No knowledge at all: it searches until nothing is left to spend."""

    @property
    def name(self) -> str:
        return "search"

    def turn(self, view: View) -> Turn:
        """As many search trials as are left, then the end."""
        if view.trials_left <= 0 or view.seconds_left <= 0:
            return Turn(Finish(reason="what there was to spend is spent"))
        return Turn(Search(trials=min(view.trials_left, _MOST_AT_ONCE), why="no knowledge, numbers alone"))
