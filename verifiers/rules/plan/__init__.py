"""Rules about the design of a confirmation: fixed first, kept to, and enough?"""

from verifiers.rule import Rule, asked
from verifiers.rules.plan import plan_kept

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (asked(plan_kept, "confirm"),)
