"""Do answers still have the form that was asked for: JSON by its schema, tool calls by theirs?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.recordings import CONFORMANCE, recordings, scores
from verifiers.verdict import Verdict, error, failed, passed

RULE = "quality.conformance"
HALF = 0.5
"Score of a form that was cut before its end."


def verify(evidence: Evidence) -> Verdict:
    """Every form that the baseline kept in all its launches the candidate keeps in all of its own.

    A server that enforces a form does so whatever the model says: near-ties flip words, never the form, so one broken
    form is enough. One that is only cut, by a model that puts in more blanks, is half kept and no failure. What the
    baseline doesn't keep whole isn't asked of the candidate.
    """
    heard = recordings(evidence)
    if isinstance(heard, str):
        return error(RULE, heard, *evidence.confirmation)
    kept, broken, items = 0, [], 0
    for name in CONFORMANCE:
        before, after = heard.task("A", name), heard.task("B", name)
        if not before or not after:
            return error(RULE, f"the launches weren't asked for {name}", *heard.trials)
        baseline, candidate = scores(before), scores(after)
        if len({frozenset(run) for run in (*baseline, *candidate)}) != 1 or not baseline[0]:
            return error(RULE, f"the launches were asked for different {name}", *heard.trials)
        items += len(baseline[0])
        for item in baseline[0]:
            if min(run[item] for run in baseline) == 1.0:
                kept += 1
                if min(run[item] for run in candidate) < HALF:
                    broken.append(f"{name}/{item}")
    if broken:
        return failed(
            RULE, f"{len(broken)} of {kept} forms are broken, {broken[0]} first: not so before", *heard.trials
        )
    if not kept:
        return passed(RULE, f"the baseline keeps none of {items} forms, so there is none to lose", *heard.trials)
    return passed(RULE, f"all {kept} forms that the baseline keeps (of {items}) are kept", *heard.trials)
