"""Was the model asked a bounded number of times a turn, and never again once it had failed?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "loop.calls_bounded"

_MOST_CALLS = 5
"""Of one turn: an answer, two repairs, two more after an `inspect`. One owner retries; retries of retries show here."""


def verify(evidence: Evidence) -> Verdict:
    """`usage.calls` of each action is at most 5; after a turn that failed for good there are no more calls."""
    actions = evidence.of_kind("action")
    if not actions:
        return error(RULE, "no action is recorded")
    gave_up, total = "", 0
    for entry in actions:
        calls = (entry.data.get("usage") or {}).get("calls", 0)
        total += calls
        if calls > _MOST_CALLS:
            return failed(
                RULE, f"{entry.key}: the model was called {calls} times for one decision, at most {_MOST_CALLS} may be"
            )
        if gave_up and calls:
            return failed(RULE, f"{entry.key}: the model was called again after it had failed for good at {gave_up}")
        if entry.data.get("proposer_failed"):
            gave_up = str(entry.key)
    return passed(RULE, f"{total} calls in {len(actions)} turns, at most {_MOST_CALLS} in one")
