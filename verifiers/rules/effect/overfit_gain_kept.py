"""Does the gain that the search saw hold for requests and loads that it never saw?"""

from __future__ import annotations

import math
from statistics import NormalDist, fmean

from verifiers.evidence import Evidence
from verifiers.looking import blocks_of
from verifiers.statistics.blocked import blocked_interval, blocked_ratio
from verifiers.statistics.blocks import BlockValues, noise
from verifiers.verdict import Verdict, error, failed, passed

RULE = "overfit.gain_kept"

KEPT = 0.5
"Share of the search's gain that must be left."
SURE = 0.99
"That an honest gain, chance and the winner's luck allowed for, isn't refused."


def verify(evidence: Evidence) -> Verdict:
    """At least half of the search's gain, in logarithms, is left on fresh requests; none of it turns at other loads.

    What wins a search was lucky too: of N candidates as good, the luckiest looks better by about sqrt(2 ln N) standard
    errors. So much, and chance, is taken off the search's gain first; the favourable end of the confirmation's interval
    is held against the half of what remains.
    """
    plan, trials, objective = evidence.plan, evidence.confirmation, evidence.deployment.objective
    if plan is None:
        return error(RULE, "there is no plan")
    blocks = blocks_of(trials, objective.metric)
    if not blocks:
        return error(RULE, f"{objective.metric} could not be measured in every launch of a whole block", *trials)
    lower = objective.lower_is_better
    spread = noise([block.favourable(lower) for block in blocks]) or 0.0
    turned = _turned(evidence, spread)
    if turned:
        return failed(RULE, turned, *trials)
    seen, launches = _seen(evidence)
    kept = _gain(blocked_ratio(blocks), lower)
    if seen is None:
        return passed(RULE, "no search saw a gain of it: the confirmation speaks for itself", *trials)
    tried = sum(trial.role == "search" and trial.measurement is not None for trial in evidence.search)
    luck = NormalDist().inv_cdf(SURE) + math.sqrt(2 * math.log(max(1, tried)))
    owed = KEPT * (seen - luck * spread * math.sqrt(launches))
    low, high = blocked_interval(blocks)
    best = _gain(low if lower else high, lower) if math.isfinite(high) else math.inf
    said = f"the search saw a gain of {_told(seen, lower)}, on fresh requests {_told(kept, lower)} is left"
    if best < owed:
        return failed(
            RULE, f"{said}, at best {_told(best, lower)}: it was fitted to the requests of the search", *trials
        )
    return passed(RULE, said, *trials)


def _seen(evidence: Evidence) -> tuple[float | None, float]:
    """The search's gain of the candidate, and the sum of 1 / launches that its variance has."""
    metric, lower = evidence.deployment.objective.metric, evidence.deployment.objective.lower_is_better
    standing = [t.summary[metric] for t in evidence.search if t.role == "baseline" and t.summary.get(metric, 0) > 0]
    mine = [
        t.summary[metric]
        for t in evidence.search
        if t.role == "search" and t.config == evidence.candidate and t.summary.get(metric, 0) > 0
    ]
    if not standing or not mine:
        return None, 0.0
    ratio = math.exp(fmean(map(math.log, mine)) - fmean(map(math.log, standing)))
    return _gain(ratio, lower), 1 / len(standing) + 1 / len(mine)


def _turned(evidence: Evidence, spread: float) -> str:
    """Why the gain doesn't hold at perturbed loads; empty where it does, beyond chance."""
    lower = evidence.deployment.objective.lower_is_better
    own, other = _at(evidence, perturbed=False), _at(evidence, perturbed=True)
    if not own or not other:
        return ""
    at_own, at_other = _gain(blocked_ratio(own), lower), _gain(blocked_ratio(other), lower)
    error_of_both = spread * math.sqrt(1 / len(own) + 1 / len(other))
    chance = NormalDist().inv_cdf(SURE) * error_of_both
    if at_other < 0 and KEPT * at_own - at_other > 2 * chance:
        turned = _told(at_other, lower)
        return f"a gain of {_told(at_own, lower)} at the deployment's load is one of {turned} at loads 20 % off"
    return ""


def _at(evidence: Evidence, *, perturbed: bool) -> list[BlockValues]:
    trials = [t for t in evidence.confirmation if (t.load_factor != 1.0) == perturbed]
    return blocks_of(trials, evidence.deployment.objective.metric) or []


def _gain(ratio: float, lower_is_better: bool) -> float:
    if ratio <= 0:
        return math.inf
    return -math.log(ratio) if lower_is_better else math.log(ratio)


def _told(log_gain: float, lower_is_better: bool) -> str:
    """As a share: of a latency that fell, of a rate that rose."""
    if lower_is_better:
        return f"{-math.expm1(-log_gain):.1%}"
    return f"{math.expm1(log_gain):.1%}" if log_gain < 20 else "any size"
