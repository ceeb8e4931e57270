"""Is the baseline steady enough that a loss could not hide in its own noise?"""

from __future__ import annotations

from itertools import combinations, permutations
from statistics import fmean

from tools.evals.agreement import agreement
from tools.evals.likelihood import cut_alike, divergence_nats
from verifiers.evidence import Evidence
from verifiers.recordings import Recordings, recordings, scores
from verifiers.verdict import Verdict, error, inconclusive, passed

RULE = "quality.noise_band"
LEAST_AGREEMENT = 0.80
"Launches of one bf16 config agree to 0.96 or more of their first 8 greedy tokens (SmolLM2-135M, 24 prompts)."
MOST_NATS = 0.01
"Two correct orders of summation in bf16 lie 0.0012 nats a token apart; int8 weights 0.0047 (SmolLM2-135M)."
MOST_UNSTEADY = 0.25
"Share of all tasks' items on which two launches of the baseline may differ."


def verify(evidence: Evidence) -> Verdict:
    """The baseline's launches against each other: whatever they differ by, the other rules must let a candidate differ.

    The band is measured before it is used, and one that is too wide decides nothing: noise is never an excuse.
    """
    heard = recordings(evidence)
    if isinstance(heard, str):
        return error(RULE, heard, *evidence.confirmation)
    baseline = heard.baseline
    if len({frozenset(evals.greedy.tokens) for evals in baseline}) != 1 or not baseline[0].greedy.tokens:
        return error(RULE, "the baseline's launches answered different prompts, or none", *heard.trials)
    own = fmean(agreement(a.greedy, b.greedy) for a, b in combinations(baseline, 2))
    pairs = list(permutations([evals.passages for evals in baseline], 2))
    if not all(a and cut_alike(a, b) for a, b in pairs):
        return error(RULE, "the baseline's launches scored no passage, or different ones", *heard.trials)
    nats = fmean(divergence_nats(a, b) for a, b in pairs)
    unsteady = _unsteady(heard)
    if unsteady is None:
        return error(RULE, "the baseline's launches were asked no tasks, or different ones", *heard.trials)
    said = f"the baseline agrees with itself on {own:.3f} of its greedy tokens, to {nats:.5f} nats a token and on "
    said += f"{1 - unsteady:.0%} of the tasks"
    if own < LEAST_AGREEMENT or nats > MOST_NATS or unsteady > MOST_UNSTEADY:
        bounds = f"{LEAST_AGREEMENT:g}, {MOST_NATS:g} nats, {1 - MOST_UNSTEADY:.0%}"
        return inconclusive(RULE, f"{said}: too unsteady to tell a loss from noise (needed: {bounds})", *heard.trials)
    return passed(RULE, said, *heard.trials)


def _unsteady(heard: Recordings) -> float | None:
    """Share of items whose score isn't the same in all launches of the baseline; None where there are none."""
    differing, items = 0, 0
    for name in heard.baseline[0].tasks:
        runs = scores(heard.task("A", name) or [])
        if not runs or any(run.keys() != runs[0].keys() for run in runs):
            return None
        items += len(runs[0])
        differing += sum(len({run[item] for run in runs}) > 1 for item in runs[0])
    return differing / items if items else None
