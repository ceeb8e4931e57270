"""Rules about the effect: is it better, by enough, and at what cost elsewhere?"""

from verifiers.rule import Rule, asked
from verifiers.rules.effect import (
    guardrails_kept,
    improvement_primary,
    overfit_gain_kept,
    slices_kept,
    slo_kept,
    tails_kept,
)

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    asked(improvement_primary, "confirm"),
    asked(overfit_gain_kept, "confirm"),
    asked(slo_kept, "confirm"),
    asked(guardrails_kept, "confirm"),
    asked(tails_kept, "confirm"),
    asked(slices_kept, "confirm"),
)
