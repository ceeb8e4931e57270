"""Budgets of a resumed run: its own, with what the user widened."""

from __future__ import annotations

from dataclasses import replace

from autotune.duration import parse_seconds
from autotune.harness.budget import Budget
from autotune.harness.rundir import RunDir
from tools.ledger import Ledger

__all__ = ["widened"]


def widened(run: RunDir, wall: str | None, trials: int | None) -> Budget | None:
    """The run's budget with another wall clock or number of trials; None where nothing is to change."""
    if wall is None and trials is None:
        return None
    ledger = Ledger.read(run.ledger)
    started, sessions = ledger.find("run.started"), ledger.of_kind("session")
    budget = Budget(**started.data["options"]["budget"]) if started else Budget()
    if sessions:  # what an earlier session widened stays so
        budget = Budget(**sessions[-1].data["budget"])
    if wall is not None:
        budget = replace(budget, wall_s=parse_seconds("--budget", wall))
    return budget if trials is None else budget.with_trials(trials)
