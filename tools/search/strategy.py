"""Strategy: what chooses the next config; five of them, interchangeable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tools.errors import UserError
from tools.search.observation import Observation
from tools.search.problem import Problem
from tools.targets.knobs import Value

__all__ = ["STRATEGIES", "Strategy", "strategy"]

STRATEGIES = ("random", "tpe", "gp", "smac", "guided")


class Strategy(Protocol):
    """Chooses the next config from what was tried. Keeps no memory: the same history gives the same answer."""

    @property
    def name(self) -> str: ...

    def ask(self, history: Sequence[Observation]) -> dict[str, Value] | None:
        """The next patch against the baseline; None when every config of the space has been tried or is refused.

        A patch that stands in `history` is never proposed again, nor is the baseline itself.
        """
        ...


def strategy(name: str, problem: Problem) -> Strategy:
    """The strategy called `name` for `problem`.

    Raises:
        UserError: no such strategy, or one whose optional package isn't installed.
    """
    if name == "random":
        from tools.search.at_random import AtRandom

        return AtRandom(problem)
    if name == "tpe":
        from tools.search.tpe import Tpe

        return Tpe(problem)
    if name == "gp":
        from tools.search.gp import Gp

        return Gp(problem)
    if name == "smac":
        from tools.search.smac import Smac

        return Smac(problem)
    if name == "guided":
        from tools.search.guided import Guided

        return Guided(problem)
    raise UserError(f"strategy {name!r}: expected one of {', '.join(STRATEGIES)}")
