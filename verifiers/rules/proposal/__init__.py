"""Rules about what is proposed: may it stand there, does it fit, is it new?"""

from verifiers.rule import Rule, asked
from verifiers.rules.proposal import (
    duplicate_config,
    feasibility_memory,
    history_thrash,
    policy_forbidden,
    policy_knobs,
    policy_security,
    policy_values,
    resources_frozen,
)

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    asked(policy_knobs, "preflight", "confirm"),
    asked(policy_values, "preflight", "confirm"),
    asked(policy_forbidden, "preflight", "confirm"),
    asked(policy_security, "preflight", "confirm"),
    asked(resources_frozen, "preflight", "confirm"),
    asked(duplicate_config, "preflight"),
    asked(feasibility_memory, "preflight", "confirm"),
    asked(history_thrash, "preflight", "confirm"),
)
