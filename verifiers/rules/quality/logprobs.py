"""Are the probabilities of every next word still the same?"""

from __future__ import annotations

from itertools import permutations
from statistics import fmean

from tools.evals.likelihood import cut_alike, divergence_nats, least_told
from verifiers.evidence import Evidence
from verifiers.recordings import declared_loss, recordings
from verifiers.verdict import Verdict, error, failed, passed

RULE = "quality.logprobs"
MARGIN_NATS = 0.0018
"""Beyond the baseline's own divergence. Measured with SmolLM2-135M in bf16, 755 places: other batches, threads and
block sizes 0 with the native kernel; another kernel, which sums in another order, 0.0012; fp32 0.0008; int4 weights
(the checkpoint has been through 4 bits already) 0.0024, int8 weights 0.0047."""


def verify(evidence: Evidence) -> Verdict:
    """Divergence KL(baseline || candidate) over held-out text, teacher-forced, against the baseline's own (A/A).

    Mean over all places, of the tokens that both told and one bucket for the rest, so a lower bound. The worst of the
    candidate's launches counts.
    """
    heard = recordings(evidence)
    if isinstance(heard, str):
        return error(RULE, heard, *evidence.confirmation)
    baseline = [evals.passages for evals in heard.baseline]
    candidate = [evals.passages for evals in heard.candidate]
    if not all((*baseline, *candidate)) or not all(cut_alike(a, b) for a, b in permutations(baseline, 2)):
        return error(RULE, "the launches scored no passage, or the baseline's different ones", *heard.trials)
    if {frozenset(passages) for passages in candidate} != {frozenset(baseline[0])}:
        return error(RULE, "the arms scored different passages", *heard.trials)
    if not all(cut_alike(baseline[0], passages) for passages in candidate):
        return failed(RULE, "the candidate cuts the same text into other tokens: another tokenizer", *heard.trials)
    told = [min(map(least_told, arm)) for arm in (baseline, candidate)]
    if told[1] < max(1, told[0]):
        alternatives = f"{told[1]} alternatives at some place, {told[0]} with the baseline"
        return error(RULE, f"the candidate tells {alternatives}: what isn't told can't be compared", *heard.trials)
    own = fmean(divergence_nats(a, b) for a, b in permutations(baseline, 2))
    cross = max(fmean(divergence_nats(a, b) for a in baseline) for b in candidate)
    loss = declared_loss(evidence)
    limit = loss.max_kl if loss else own + MARGIN_NATS
    said = f"{cross:.5f} nats a token from the baseline, whose own launches lie {own:.5f} apart; "
    said += f"{limit:.5f} {'is declared' if loss else 'may be noise'}"
    if cross > limit:
        return failed(RULE, f"{said}: the change alters the model's probabilities", *heard.trials)
    return passed(RULE, said, *heard.trials)
