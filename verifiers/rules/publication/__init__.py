"""Rules about what would be committed, and about the run that led to it."""

from verifiers.rule import Rule, asked
from verifiers.rules.publication import (
    approval_bound,
    change_base_fresh,
    change_only_planned,
    change_secrets,
    claims_traceable,
    integrity_all_asked,
    integrity_faults,
    integrity_harness,
    loop_actions_typed,
    loop_budget,
    loop_calls_bounded,
    loop_state_consistent,
    loop_untrusted_inert,
)

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    asked(integrity_harness, "publish"),
    asked(integrity_all_asked, "publish"),
    asked(integrity_faults, "publish"),
    asked(loop_state_consistent, "publish"),
    asked(loop_actions_typed, "publish"),
    asked(loop_calls_bounded, "publish"),
    asked(loop_budget, "publish"),
    asked(loop_untrusted_inert, "publish"),
    asked(change_base_fresh, "publish"),
    asked(change_only_planned, "publish"),
    asked(change_secrets, "publish"),
    asked(claims_traceable, "publish"),
    asked(approval_bound, "publish"),
)
