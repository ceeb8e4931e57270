"""Rules about the effect: is it better, by enough, and at what cost elsewhere?"""

from verifiers.rule import Rule, asked
from verifiers.rules.effect import guardrails_kept, improvement_primary, slo_kept

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    asked(improvement_primary, "confirm"),
    asked(slo_kept, "confirm"),
    asked(guardrails_kept, "confirm"),
)
