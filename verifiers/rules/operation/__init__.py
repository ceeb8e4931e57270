"""Rules about running it: does it start, last under stress, and can it be taken back?"""

from verifiers.rule import Rule, asked
from verifiers.rules.operation import headroom_soak, rollback_drill, start_time

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    asked(start_time, "confirm"),
    asked(headroom_soak, "confirm"),
    asked(rollback_drill, "confirm"),
)
