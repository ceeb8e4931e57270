"""Does the model still say the same?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from statistics import fmean

from tools.evals.agreement import GreedyOutputs, agreement
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, inconclusive, passed

RULE = "quality.greedy_tokens"
MARGIN = 0.10
"How far below the baseline's own agreement the candidate's may lie: the spread of a mean over 24 prompts."


def verify(evidence: Evidence) -> Verdict:
    """Greedy agreement between candidate and baseline launches, against the baseline's agreement with itself (A/A).

    Agreement is the mean over prompts of the share of tokens before the first difference. Batch composition flips
    near-ties in low precision, so the baseline doesn't agree perfectly with itself; only what lies beyond that band is
    a loss.
    """
    baseline, candidate = _outputs(evidence, "A"), _outputs(evidence, "B")
    trials = evidence.confirmation
    if len(baseline) < 2 or len(candidate) < 2:
        return error(RULE, "greedy outputs of two launches of each arm are needed", *trials)
    prompts = {frozenset(outputs.tokens) for outputs in (*baseline, *candidate)}
    if len(prompts) != 1:
        return error(RULE, "the launches answered different prompts", *trials)
    own = fmean(agreement(a, b) for a, b in combinations(baseline, 2))
    cross = fmean(agreement(a, b) for a, b in product(baseline, candidate))
    said = f"greedy agreement with the baseline {cross:.3f}, the baseline's own {own:.3f}"
    if cross < own - MARGIN:
        return failed(RULE, f"{said}: the change alters what the model says", *trials)
    if own < 0.5:
        return inconclusive(RULE, f"{said}: the baseline is too unstable to tell", *trials)
    return passed(RULE, f"{said}: within the band of {MARGIN:g}", *trials)


def _outputs(evidence: Evidence, arm: str) -> Sequence[GreedyOutputs]:
    return [trial.evals.greedy for trial in evidence.arm(arm) if trial.evals is not None]
