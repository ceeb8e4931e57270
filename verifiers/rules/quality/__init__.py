"""Rules about what the model says: is it still the same, for everybody?"""

from verifiers.rule import Rule, asked
from verifiers.rules.quality import (
    conduct_same,
    conformance,
    context,
    greedy_tokens,
    logprobs,
    noise_band,
    own_evals,
    perplexity,
    sampling,
    tasks,
)

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    asked(conduct_same, "confirm"),
    asked(noise_band, "confirm"),
    asked(greedy_tokens, "confirm"),
    asked(logprobs, "confirm"),
    asked(perplexity, "confirm"),
    asked(context, "confirm"),
    asked(conformance, "confirm"),
    asked(sampling, "confirm"),
    asked(tasks, "confirm"),
    asked(own_evals, "confirm"),
)
