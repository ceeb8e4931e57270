"""Evals: does the model still say the same? Greedy token divergence; perplexity and task sets come later."""

from tools.evals.agreement import GreedyOutputs, agreement
from tools.evals.prompts import GREEDY_PROMPTS

__all__ = ["GREEDY_PROMPTS", "GreedyOutputs", "agreement"]
