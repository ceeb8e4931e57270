"""How long the rest of a run takes, from what its trials took so far."""

from __future__ import annotations

from statistics import fmean

from autotune.harness.context import Context

__all__ = ["confirm_seconds", "seconds_left", "trials_affordable"]

_EVALS_SHARE = 0.4
"What recording greedy outputs adds to a trial, as a share of its time (measured on the demo: 0.2 to 0.45)."


def confirm_seconds(context: Context) -> float:
    """Foreseen seconds of a whole confirmation: the baseline's launches and the incumbent's take different times."""
    history = context.history
    baseline_s = fmean(t.wall_s for t in history.baselines) if history.baselines else history.trial_seconds
    candidate_s = history.incumbent.wall_s if history.incumbent else baseline_s
    per_arm = context.file.deployment.acceptance.trials_per_arm
    return per_arm * (baseline_s + candidate_s) * (1 + _EVALS_SHARE)


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
    if context.ledger.find("plan"):
        confirmed = len([entry for entry in context.ledger.of_kind("trial") if entry.data["role"] == "confirm"])
        launches = 2 * context.file.deployment.acceptance.trials_per_arm
        return confirm_seconds(context) * (1 - confirmed / launches)
    return trials_affordable(context) * history.trial_seconds + confirm_seconds(context)
