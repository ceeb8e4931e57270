"""Asking the search for the next patch, with the run's history as what it has learned."""

from __future__ import annotations

from autotune.harness.context import Context
from tools.search import Observation, Search
from tools.targets.knobs import Value

__all__ = ["ask_search"]


def ask_search(context: Context) -> dict[str, Value] | None:
    """The next patch against the baseline; None when the space is exhausted. Pure in the ledger."""
    history = context.history
    search = Search(
        context.search_space,
        context.baseline,
        lower_is_better=context.file.deployment.objective.lower_is_better,
        seed=context.search_seed,
        explore_share=context.playbook.explore_share,
    )
    seen = [
        Observation(
            patch=t.patch,
            objective=history.objective(t),
            feasible=t.valid,
            constraints=history.violations(t),
            from_search=t.source == "search",
        )
        for t in history.tried
    ]
    seen += [
        Observation(r.proposal.patch, objective=None, feasible=False, from_search=r.proposal.source == "search")
        for r in history.refused
    ]
    return search.ask(seen)
