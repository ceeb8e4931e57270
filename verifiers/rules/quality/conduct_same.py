"""Is any client served as the load generator is?"""

from __future__ import annotations

from statistics import median

from tools.evals.results import EvalResults
from verifiers.evidence import Evidence
from verifiers.recordings import recordings
from verifiers.statistics.rank_test import exact_rank_p
from verifiers.verdict import Verdict, error, failed, passed

RULE = "conduct.same"
ALPHA = 0.01
MOST_CHANGE = 1.3
"How much slower, against us, others may be served after the change than before it, in every launch."
MOST = 2.0
"How much slower than us others may be served at all: our sender is lean, and answers are short."


def verify(evidence: Evidence) -> Verdict:
    """Seconds that a request takes under another client's identity, as a ratio to ours a moment before or after.

    The launch's luck is in both halves of a pair and cancels, so pairs may be ranked: the candidate's ratios against
    the baseline's by the exact rank test, and by a least effect that each launch shows for itself. Ratios far from 1
    in every pair need no baseline.
    """
    heard = recordings(evidence)
    if isinstance(heard, str):
        return error(RULE, heard, *evidence.confirmation)
    before, after = [_ratios(said) for said in heard.baseline], [_ratios(said) for said in heard.candidate]
    if not all(before) or not all(after):
        return error(RULE, "not every launch was asked under another client's identity", *heard.trials)
    change = min(map(median, after)) / max(map(median, before))
    pooled = [ratio for ratios in after for ratio in ratios]
    p = exact_rank_p(pooled, [ratio for ratios in before for ratio in ratios])
    said = f"another client waits {median(pooled):.2f} times as long as the load generator, x{change:.2f} of before at "
    said += f"least (p = {p:.3g})"
    if (p <= ALPHA and change > MOST_CHANGE) or (median(pooled) > MOST and min(pooled) > MOST_CHANGE):
        return failed(RULE, f"{said}: the benchmark is served otherwise than users are", *heard.trials)
    return passed(RULE, said, *heard.trials)


def _ratios(said: EvalResults) -> list[float]:
    """Theirs / ours, pair by pair; none where they weren't measured."""
    conduct = said.conduct
    if conduct is None or not conduct.ours_s or len(conduct.ours_s) != len(conduct.disguised_s):
        return []
    if min(*conduct.ours_s, *conduct.disguised_s) <= 0:
        return []
    return [theirs / ours for ours, theirs in zip(conduct.ours_s, conduct.disguised_s, strict=True)]
