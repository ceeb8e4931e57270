"""Does the candidate keep the latency promise?"""

from __future__ import annotations

from statistics import median

from verifiers.evidence import Evidence
from verifiers.looking import grain, rail_of
from verifiers.statistics.promise import clearly_broken
from verifiers.verdict import Verdict, error, failed, inconclusive, passed

RULE = "slo.kept"

MARGIN = 0.02
"Worsening that counts as none where a promise is missed."
ROOM = 0.05
"By more than which a bound is clearly missed."


def verify(evidence: Evidence) -> Verdict:
    """Median over the candidate's launches of each promised percentile, in ms, against its bound.

    At the deployment's own load: that is what the promise was made for, and the harder blocks ask for more. Where the
    bound is missed, it is the candidate's fault if it is shown, in all blocks, to be worse than the baseline by more
    than MARGIN, or if it misses clearly what the baseline keeps. If the baseline misses it too, and the candidate's
    median is no higher or is shown not to be worse by more than MARGIN, it passes, labelled "still out of SLO". Between
    these, a value at its bound falls on either side by chance: INCONCLUSIVE.
    """
    bounds = evidence.deployment.slo.bounds()
    trials = tuple(trial for trial in evidence.arm("B") if trial.load_factor == 1.0)
    if not bounds:
        return passed(RULE, "the deployment promises no latency")
    if not trials:
        return error(RULE, "the candidate was not measured at the promised load")
    still_out, doubtful = [], []
    for metric, bound in sorted(bounds.items()):
        values, standing = _promised(evidence, "B", metric), _promised(evidence, "A", metric)
        if not values:
            return error(RULE, f"{metric} could not be measured in every launch of the candidate", *trials)
        value = median(values)
        if value <= bound:
            continue
        before = median(standing) if standing else None
        told = "not measurable" if before is None else f"{before:.4g}"
        said = f"{metric} is {value:.4g}, {told} with the baseline, the promise is {bound:g}"
        found = rail_of(evidence.confirmation, metric, MARGIN)
        if found is not None and found.broken:
            return failed(
                RULE, f"{said}: shown to be worse by more than {MARGIN:.0%}, p = {found.p_broken:.2g}", *trials
            )
        if clearly_broken(standing, values, bound, ROOM, grain(metric)):
            return failed(RULE, f"{said}: missed in every launch, kept in every one of the baseline", *trials)
        no_worse = before is not None and (value <= before or (found is not None and found.kept))
        if before is not None and before > bound and no_worse:
            still_out.append(f"{metric} {value:.4g} over {bound:g}")
        else:
            doubtful.append(said)
    if doubtful:
        return inconclusive(RULE, f"neither kept nor broken beyond chance: {'; '.join(doubtful)}", *trials)
    if still_out:
        return passed(RULE, f"still out of SLO, as the baseline is and by no more: {'; '.join(still_out)}", *trials)
    return passed(RULE, "keeps " + ", ".join(f"{m} <= {b:g}" for m, b in sorted(bounds.items())), *trials)


def _promised(evidence: Evidence, arm: str, metric: str) -> list[float]:
    """The metric in an arm's launches at the promised load; empty where any of them lacks it."""
    values = [trial.summary.get(metric) for trial in evidence.arm(arm) if trial.load_factor == 1.0]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []
