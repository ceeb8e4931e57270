"""How long the rest of a run takes, from what its trials took so far."""

from __future__ import annotations

from autotune.harness.context import Context

__all__ = ["confirm_seconds", "seconds_left", "trials_affordable"]

_EVALS_S = 10.0
"First guess of what recording greedy outputs adds to a confirmation trial, until one has been measured."


def confirm_seconds(context: Context) -> float:
    """Foreseen seconds of a whole confirmation."""
    launches = 2 * context.file.deployment.acceptance.trials_per_arm
    return launches * (context.history.trial_seconds + _EVALS_S)


def trials_affordable(context: Context) -> int:
    """Exploration trials that the budget and, with the confirmation's time set aside, the clock still allow."""
    budget = context.effects.budget
    spent = budget.spent(context.ledger)
    per_trial = context.history.trial_seconds or 1.0
    by_clock = (budget.wall_s - spent.wall_s - confirm_seconds(context)) / per_trial
    return max(0, min(budget.trials - spent.trials, int(by_clock)))


def seconds_left(context: Context) -> float | None:
    """Foreseen seconds to the end of the run if every trial of the budget is used; None before the first trial."""
    history = context.history
    if not history.trial_seconds:
        return None
    confirmed = sum(1 for e in context.ledger if e.kind == "trial" and e.data["role"] == "confirm")
    if any(entry.kind == "plan" for entry in context.ledger):
        launches = 2 * context.file.deployment.acceptance.trials_per_arm - confirmed
        return launches * history.trial_seconds
    return trials_affordable(context) * history.trial_seconds + confirm_seconds(context)
