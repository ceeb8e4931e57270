"""How long the rest of a run takes, from what its trials took so far."""

from __future__ import annotations

import math
from statistics import fmean

from autotune.harness.context import Context
from verifiers import Plan
from verifiers.plan import LOOSEST, most_blocks
from verifiers.statistics.blocks import LAUNCHES
from verifiers.statistics.foresight import least_blocks

__all__ = ["confirm_launches", "confirm_seconds", "seconds_left", "too_small", "trials_affordable"]

_EVALS_SHARE = 0.4
"What the evals add to a launch of the first block, as a share of its time (measured on the demo: 0.2 to 0.45)."

_MARGIN = 1.1
"On what is foreseen, so that the budget that is named is enough."

_PROOFS = 3
"What soak and rollback drill take, in launches: a soak has twice a trial's requests."


def confirm_launches(context: Context) -> tuple[int, int]:
    """The fewest launches that a confirmation can be won with, and the most that it may come to."""
    entry = context.ledger.find("plan")
    if entry is not None:
        planned = Plan.from_json(entry.data["plan"])
        return LAUNCHES * least_blocks(planned.level), LAUNCHES * len(planned.blocks)
    acceptance = context.file.deployment.acceptance
    level = min(acceptance.alpha, LOOSEST)
    return LAUNCHES * least_blocks(level), LAUNCHES * most_blocks(acceptance, level)


def confirm_seconds(context: Context) -> float:
    """Foreseen seconds of a whole confirmation, half-way between its fewest launches and its most, and of the proofs.

    The baseline's launches and the incumbent's take different times.
    """
    return (sum(confirm_launches(context)) / 2 + _PROOFS) * _launch_seconds(context) + _evals_seconds(context)


def trials_affordable(context: Context) -> int:
    """Exploration trials that the budget and, with the confirmation's time set aside, the clock still allow."""
    budget = context.effects.budget
    spent = budget.spent(context.ledger)
    per_trial = context.history.trial_seconds or 1.0
    by_clock = (budget.wall_s - spent.wall_s - confirm_seconds(context)) / per_trial
    return max(0, min(budget.trials - spent.trials, int(by_clock)))


def too_small(context: Context) -> str | None:
    """What the budget lacks, as a sentence, where it allows no candidate to be tried; None where one was or can."""
    if any(t.role == "search" for t in context.history.tried) or trials_affordable(context) > 0:
        return None
    budget = context.effects.budget
    if budget.trials < 1:
        return "budget: no trial is allowed, so nothing can be tried; resume with --trials 1 or more"
    needed_s = budget.spent(context.ledger).wall_s + context.history.trial_seconds + confirm_seconds(context)
    minutes = math.ceil(_MARGIN * needed_s / 60)
    return (
        f"budget: {budget.wall_s / 60:.1f} min leave no time for a single trial and its confirmation, which take about "
        f"{minutes} min in all; resume with --budget {minutes}m or more"
    )


def seconds_left(context: Context) -> float | None:
    """Foreseen seconds to the end of the run if every trial of the budget is used; None before the first trial.

    A confirmation that has gone beyond what was foreseen is taken to need the rest of its block.
    """
    history = context.history
    if not history.trial_seconds:
        return None
    if context.ledger.find("plan"):
        confirmed = len([entry for entry in context.ledger.of_kind("trial") if entry.data["role"] == "confirm"])
        foreseen = sum(confirm_launches(context)) / 2
        left = max(foreseen - confirmed, LAUNCHES - confirmed % LAUNCHES)
        return (left + _PROOFS) * _launch_seconds(context) + (_evals_seconds(context) if confirmed < LAUNCHES else 0.0)
    return trials_affordable(context) * history.trial_seconds + confirm_seconds(context)


def _launch_seconds(context: Context) -> float:
    history = context.history
    baseline_s = fmean(t.wall_s for t in history.baselines) if history.baselines else history.trial_seconds
    candidate_s = history.incumbent.wall_s if history.incumbent else baseline_s
    return (baseline_s + candidate_s) / 2


def _evals_seconds(context: Context) -> float:
    return LAUNCHES * _launch_seconds(context) * _EVALS_SHARE
