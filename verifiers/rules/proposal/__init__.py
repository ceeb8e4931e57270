"""Rules about what is proposed: may it stand there, does it fit, is it new?"""

from verifiers.rule import Rule, asked
from verifiers.rules.proposal import duplicate_config, feasibility_memory, policy_knobs

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    asked(policy_knobs, "preflight", "confirm"),
    asked(duplicate_config, "preflight"),
    asked(feasibility_memory, "preflight", "confirm"),
)
