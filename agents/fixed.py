"""Fixed: a proposer with one given change to try, for when it is known already what is to be measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agents.actions import Finish, Propose
from agents.proposer import Turn
from agents.view import View
from tools.targets.knobs import Value

__all__ = ["Fixed"]


@dataclass(frozen=True)
class Fixed:
    """Proposes `patch` once, then ends."""

    patch: Mapping[str, Value]
    why: str

    @property
    def name(self) -> str:
        return "fixed"

    def turn(self, view: View) -> Turn:
        """The one proposal until it has been tried or refused, then the end."""
        if view.tried_as(self.patch) is None:
            return Turn(Propose(patch=dict(self.patch), hypothesis=self.why))
        return Turn(Finish(reason="the change was tried"))
