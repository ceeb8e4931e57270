"""Does every launch of the confirmation count, none begun again until it pleased, none left out?"""

from __future__ import annotations

from collections import Counter

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, inconclusive, passed

RULE = "plan.all_counted"

MOST_STARTS = 3
"Of one launch: a crash of the harness may cut one or two short, but nobody is that unlucky for long."


def verify(evidence: Evidence) -> Verdict:
    """Each launch that the ledger saw begin is among those that are judged, once, and was begun at most three times.

    More often is a FAIL within one session, where nothing but a choice begins a launch again. Whoever stopped the
    session each time and resumed may have had reasons: that can't be told from a choice, and is INCONCLUSIVE.
    """
    trials = evidence.confirmation
    if not trials:
        return error(RULE, "no launch of a confirmation was recorded")
    judged = Counter(trial.id for trial in trials)
    twice = [trial for trial in trials if judged[trial.id] > 1]
    if twice:
        return failed(RULE, f"launch {twice[0].id} is counted {judged[twice[0].id]} times", *twice)
    begun, resumed = _starts(evidence)
    recorded = {str(e.data.get("id")) for e in evidence.of_kind("trial") if e.data.get("role") == "confirm"}
    left_out = sorted((set(begun) | recorded) - set(judged))
    if left_out:
        return failed(RULE, f"{len(left_out)} launches of it don't count: {', '.join(left_out)}", *trials)
    often = [f"{name} {times} times" for name, times in sorted(begun.items()) if times > MOST_STARTS]
    if any(times - resumed[name] > MOST_STARTS for name, times in begun.items()):
        return failed(RULE, f"launches were begun again and again before one was kept: {', '.join(often)}", *trials)
    if often:
        return inconclusive(
            RULE,
            f"launches were begun again whenever the run was resumed, so often that it may have been a choice: "
            f"{', '.join(often)}, where {MOST_STARTS} times are nobody's; measure again",
            *trials,
        )
    again = [f"{name} was begun {times} times" for name, times in sorted(begun.items()) if times > 1]
    note = f" ({'; '.join(again)}, cut short before it was measured)" if again else ""
    return passed(RULE, f"all {len(trials)} launches count{note}", *trials)


def _starts(evidence: Evidence) -> tuple[Counter[str], Counter[str]]:
    """How often each launch of the confirmation was begun, and how often of these in a session after the last start."""
    begun: Counter[str] = Counter()
    resumed: Counter[str] = Counter()
    session = 0
    last: dict[str, int] = {}
    for entry in evidence.entries:
        if entry.kind == "session":
            session += 1
        elif entry.kind == "trial.started" and entry.data.get("role") == "confirm":
            name = str(entry.data.get("id"))
            begun[name] += 1
            resumed[name] += last.get(name, session) != session
            last[name] = session
    return begun, resumed
