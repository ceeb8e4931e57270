"""Rules about running it: does it start, last under stress, and can it be taken back?"""

from verifiers.rule import Rule

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = ()
