"""Does every launch of the confirmation count, none begun again until it pleased, none left out?"""

from __future__ import annotations

from collections import Counter

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "plan.all_counted"

MOST_STARTS = 3
"Of one launch: a crash of the harness may cut one or two short, but nobody is that unlucky for long."


def verify(evidence: Evidence) -> Verdict:
    """Each launch that the ledger saw begin is among those that are judged, once, and was begun at most three times."""
    trials = evidence.confirmation
    if not trials:
        return error(RULE, "no launch of a confirmation was recorded")
    judged = Counter(trial.id for trial in trials)
    twice = [trial for trial in trials if judged[trial.id] > 1]
    if twice:
        return failed(RULE, f"launch {twice[0].id} is counted {judged[twice[0].id]} times", *twice)
    begun = Counter(
        str(entry.data.get("id")) for entry in evidence.of_kind("trial.started") if entry.data.get("role") == "confirm"
    )
    recorded = {str(e.data.get("id")) for e in evidence.of_kind("trial") if e.data.get("role") == "confirm"}
    left_out = sorted((set(begun) | recorded) - set(judged))
    if left_out:
        return failed(RULE, f"{len(left_out)} launches of it don't count: {', '.join(left_out)}", *trials)
    often = [f"{name} {times} times" for name, times in sorted(begun.items()) if times > MOST_STARTS]
    if often:
        return failed(RULE, f"launches were begun again and again before one was kept: {', '.join(often)}", *trials)
    again = [f"{name} was begun {times} times" for name, times in sorted(begun.items()) if times > 1]
    note = f" ({'; '.join(again)}, cut short before it was measured)" if again else ""
    return passed(RULE, f"all {len(trials)} launches count{note}", *trials)
