"""Rules about what would be committed, and about the run that led to it."""

from verifiers.rule import Rule

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = ()
