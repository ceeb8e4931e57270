"""Does the candidate keep the latency promise?"""

from __future__ import annotations

from statistics import median

from verifiers.evidence import Evidence, TrialEvidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "slo.kept"


def verify(evidence: Evidence) -> Verdict:
    """Median over the candidate's launches of each promised percentile, in ms, against its bound.

    At the deployment's own load: that is what the promise was made for, and the harder blocks ask for more. Where the
    baseline misses the promise too, a candidate that misses nothing by more than the baseline still passes, labelled
    "still out of SLO".
    """
    bounds = evidence.deployment.slo.bounds()
    trials, standing = _promised(evidence, "B"), _promised(evidence, "A")
    if not bounds:
        return passed(RULE, "the deployment promises no latency")
    if not trials:
        return error(RULE, "the candidate was not measured at the promised load")
    still_out = []
    for metric, bound in sorted(bounds.items()):
        value, before = _typical(trials, metric), _typical(standing, metric)
        if value is None:
            return error(RULE, f"{metric} could not be measured in every launch of the candidate", *trials)
        if value <= bound:
            continue
        if before is None or before <= bound or value > before:
            return failed(RULE, f"{metric} is {value:.4g}, the promise is {bound:g}", *trials)
        still_out.append(f"{metric} {value:.4g} over {bound:g}")
    if still_out:
        return passed(RULE, f"still out of SLO, as the baseline is and by no more: {'; '.join(still_out)}", *trials)
    return passed(RULE, "keeps " + ", ".join(f"{m} <= {b:g}" for m, b in sorted(bounds.items())), *trials)


def _promised(evidence: Evidence, arm: str) -> tuple[TrialEvidence, ...]:
    return tuple(trial for trial in evidence.arm(arm) if trial.load_factor == 1.0)


def _typical(trials: tuple[TrialEvidence, ...], metric: str) -> float | None:
    values = [trial.summary.get(metric) for trial in trials]
    known = [value for value in values if value is not None]
    return median(known) if known and len(known) == len(values) else None
