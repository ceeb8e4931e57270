"""Rules about the design of a confirmation: fixed first, kept to, and enough?"""

from verifiers.rule import Rule, asked
from verifiers.rules.plan import (
    attempts_bounded,
    drift_bracket,
    plan_all_counted,
    plan_goalposts,
    plan_hidden_seeds,
    plan_kept,
    replication_enough,
    replication_launches,
)

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    asked(plan_goalposts, "confirm"),
    asked(plan_kept, "confirm"),
    asked(plan_all_counted, "confirm"),
    asked(plan_hidden_seeds, "confirm"),
    asked(attempts_bounded, "confirm"),
    asked(replication_launches, "confirm"),
    asked(replication_enough, "confirm"),
    asked(drift_bracket, "confirm"),
)
