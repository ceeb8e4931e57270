"""Is what would be changed still what the run began on?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "change.base_fresh"


def verify(evidence: Evidence) -> Verdict:
    """The deployment file is what it was at the run's first entry: in the checkout, and in the commit to build on.

    Commits that came since and left the file alone don't matter.
    """
    change = evidence.change
    started = evidence.of_kind("run.started")
    if change is None or not started:
        return error(RULE, "it isn't recorded what the run began on, or what would be committed")
    if change.before_text != started[0].data["file_text"]:
        return failed(RULE, f"what would be changed isn't the {change.file} that the run began with")
    if change.current_text != change.before_text:
        return failed(RULE, f"{change.file} was changed since the run began; what was verified may no longer apply")
    base = started[0].data["base"]
    if base is None:
        return error(RULE, "the run began without a commit to build on")
    if change.base_head != base["head"]:
        return failed(
            RULE, f"the change names {change.base_head[:12]} as its base, the run began on {base['head'][:12]}"
        )
    if change.current_head == change.base_head:
        return passed(RULE, f"{change.file} and its base {change.base_head[:12]} are as the run found them")
    moved = f"the base moved from {change.base_head[:12]} to {change.current_head[:12]} since the run began"
    if change.current_object != base["object"]:
        return failed(RULE, f"{moved}, and {change.file} isn't there what it was; tune again from there")
    return passed(RULE, f"{moved}, and {change.file} is there what the run found")
