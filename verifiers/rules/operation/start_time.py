"""Does the candidate start about as fast as the baseline, so that a restart isn't an outage?"""

from __future__ import annotations

from statistics import median

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "start.time"

LARGEST_RATIO = 1.5
"""Of the candidate's median time to ready over the baseline's. Launches of one config differ by some 10 %."""

SLACK_S = 5.0
"""Seconds that may be added whatever the ratio: twice of two seconds is no outage."""


def verify(evidence: Evidence) -> Verdict:
    """Median seconds from launch to ready over each arm's fresh launches; refused beyond both ratio and slack."""
    trials = evidence.confirmation
    ready_s = {arm: [trial.ready_s for trial in trials if trial.arm == arm] for arm in ("A", "B")}
    if not ready_s["A"] or not ready_s["B"]:
        return error(RULE, "there are no launches of both configs to compare", *trials)
    unknown = [trial for trial in trials if trial.ready_s <= 0]
    if unknown:
        return error(RULE, f"trial {unknown[0].id} doesn't say when its server was ready", *unknown)
    before, after = median(ready_s["A"]), median(ready_s["B"])
    said = f"ready {after:.1f} s after its launch, the baseline {before:.1f} s"
    if after > before * LARGEST_RATIO and after > before + SLACK_S:
        return failed(RULE, f"{said}: x{after / before:.2f}, allowed x{LARGEST_RATIO:g} or {SLACK_S:g} s more", *trials)
    return passed(RULE, said, *trials)
