"""Evals: what a model says, asked the same before and after every change. Comparing is the verifiers' business.

`suite.Suite` asks a server everything and gives `results.EvalResults`; `agreement` and `likelihood` measure how far
two of them are apart. A user's own evals are declared in `declared`, read by `own`, and scored by `scorers` or, in a
process without a network, by `python_scorer`.
"""

from tools.evals.agreement import GreedyOutputs, agreement
from tools.evals.prompts import GREEDY_PROMPTS

__all__ = ["GREEDY_PROMPTS", "GreedyOutputs", "agreement"]
