"""Does held-out text surprise the model more than before?"""

from __future__ import annotations

from statistics import fmean

from tools.evals.likelihood import perplexity
from verifiers.evidence import Evidence
from verifiers.recordings import declared_loss, recordings
from verifiers.verdict import Verdict, error, failed, passed

RULE = "quality.perplexity"
MARGIN = 0.01
"""Relative, beyond the baseline's own spread. SmolLM2-135M in bf16: another kernel moves it by 0.1 %, fp32 by 0.4 %,
int8 weights by 0.1 %: it sees only gross losses, and those that divergence can't, of words that aren't among the likely
ones."""


def verify(evidence: Evidence) -> Verdict:
    """Perplexity of the passages' own words, which divergence lumps together where they are rare."""
    heard = recordings(evidence)
    if isinstance(heard, str):
        return error(RULE, heard, *evidence.confirmation)
    if not all(evals.passages for evals in (*heard.baseline, *heard.candidate)):
        return error(RULE, "a launch scored no passage", *heard.trials)
    if len({frozenset(evals.passages) for evals in (*heard.baseline, *heard.candidate)}) != 1:
        return error(RULE, "the launches scored different passages", *heard.trials)
    baseline = [perplexity(evals.passages) for evals in heard.baseline]
    candidate = [perplexity(evals.passages) for evals in heard.candidate]
    loss = declared_loss(evidence)
    limit = loss.max_perplexity_increase if loss else max(baseline) / min(baseline) - 1 + MARGIN
    increase = max(candidate) / fmean(baseline) - 1
    said = f"perplexity {fmean(baseline):.3f} before, {max(candidate):.3f} after: {increase:+.2%}, {limit:.2%} "
    said += "is declared" if loss else "may be noise"
    return (failed if increase > limit else passed)(RULE, said, *heard.trials)
