"""Does a better average hide a worse tail?"""

from __future__ import annotations

import math

from tools.measure.summary import METRICS, samples_ms
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.looking import whole_blocks
from verifiers.statistics.harm import Harm, harm
from verifiers.verdict import Verdict, error, failed, passed

RULE = "tails.kept"

MARGIN = 0.25
"Worsening of a tail, beyond chance, that an improvement of the average can't buy."

_TAILS = ("p95", "p99", "max")
_OWN_TAIL = ("p95", "p99")


def verify(evidence: Evidence) -> Verdict:
    """p95, p99 and longest of the objective's own latency (of `e2el` where the objective is a rate), against the
    baseline's. Timed-out requests count with what they had waited; a tail that only the candidate's failures hide is
    worse.

    Where the objective is itself a p95 or p99 there's no average to hide behind.
    """
    trials = evidence.confirmation
    metric = evidence.deployment.objective.metric
    statistic, _, family = metric.removesuffix("_ms").partition("_")
    if metric.endswith("_ms") and statistic in _OWN_TAIL:
        return passed(RULE, f"{metric} is a tail itself", *trials)
    blocks = whole_blocks(trials)
    if not blocks or any(trial.measurement is None for block in blocks for trial in block):
        return error(RULE, "no whole block of the confirmation was measured", *trials)
    family = family if metric.endswith("_ms") and statistic != "max" else "e2el"
    if f"p95_{family}_ms" not in METRICS:
        return error(RULE, f"{metric} is of no family of latencies that has a tail", *trials)
    found: list[Harm] = []
    for tail in _TAILS:
        values = [[(trial.arm, _tail(trial, tail, family)) for trial in block] for block in blocks]
        lost = {arm: sum(value is None for block in values for own, value in block if own == arm) for arm in ("A", "B")}
        name = f"{tail}_{family}_ms"
        if lost["B"] > lost["A"]:
            return failed(
                RULE, f"{name} can't be told in {lost['B']} launches of the candidate: too many failed", *trials
            )
        told = [[(arm, value) for arm, value in block if value is not None] for block in values]
        if all(len(block) == 4 for block in told):
            found.append(harm(name, told, MARGIN))
    if not found:
        return error(RULE, f"no tail of {family} could be measured in every launch", *trials)
    harmed = [one for one in found if one.shown(len(found))]
    if harmed:
        return failed(RULE, f"{metric} may be better, but {harmed[0].said}", *trials)
    return passed(RULE, "; ".join(one.said for one in found), *trials)


def _tail(trial: TrialEvidence, tail: str, family: str) -> float | None:
    if tail != "max":
        return trial.summary.get(f"{tail}_{family}_ms")
    if trial.measurement is None:
        return None
    # A failed request is longer than any other: if few failed, the percentiles don't see it, and if many, they say so.
    return max((value for value in samples_ms(trial.measurement, family) if math.isfinite(value)), default=None)
