"""Rules about the numbers: are they the server's, whole, possible, and of what was asked for?"""

from verifiers.rule import Rule, asked
from verifiers.rules.measurement import (
    accounting_balance,
    environment_same,
    identity_served,
    physics_floor,
    soundness_doubts,
)

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    asked(environment_same, "confirm"),
    asked(identity_served, "trial", "confirm"),
    asked(accounting_balance, "trial", "confirm"),
    asked(soundness_doubts, "trial", "confirm"),
    asked(physics_floor, "trial", "confirm"),
)
