"""Does the model still say the same?"""

from __future__ import annotations

from itertools import combinations, product
from statistics import fmean

from tools.evals.agreement import agreement
from verifiers.evidence import Evidence
from verifiers.recordings import declared_loss, recordings
from verifiers.verdict import Verdict, error, failed, passed

RULE = "quality.greedy_tokens"
MARGIN = 0.10
"How far below the baseline's own agreement the candidate's may lie: the spread of a mean over 24 prompts."


def verify(evidence: Evidence) -> Verdict:
    """Greedy agreement between candidate and baseline launches, against the baseline's agreement with itself (A/A).

    Agreement is the mean over prompts of the share of tokens before the first difference. Batch composition flips
    near-ties in low precision, so the baseline doesn't agree perfectly with itself; only what lies beyond that band is
    a loss. Where a loss is declared words may differ, and how much is lost is for divergence and tasks to say.
    """
    heard = recordings(evidence)
    if isinstance(heard, str):
        return error(RULE, heard, *evidence.confirmation)
    baseline = [evals.greedy for evals in heard.baseline]
    candidate = [evals.greedy for evals in heard.candidate]
    if len({frozenset(outputs.tokens) for outputs in (*baseline, *candidate)}) != 1 or not baseline[0].tokens:
        return error(RULE, "the launches answered different prompts, or none", *heard.trials)
    own = fmean(agreement(a, b) for a, b in combinations(baseline, 2))
    cross = fmean(agreement(a, b) for a, b in product(baseline, candidate))
    said = f"greedy agreement with the baseline {cross:.3f}, the baseline's own {own:.3f}"
    if declared_loss(evidence) is not None:
        return passed(RULE, f"{said}: words may differ, since a loss is declared", *heard.trials)
    if cross < own - MARGIN:
        return failed(RULE, f"{said}: the change alters what the model says", *heard.trials)
    return passed(RULE, f"{said}: within the band of {MARGIN:g}", *heard.trials)
