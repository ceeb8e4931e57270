"""Rules about what the model says: is it still the same?"""

from verifiers.rule import Rule, asked
from verifiers.rules.quality import greedy_tokens

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (asked(greedy_tokens, "confirm"),)
