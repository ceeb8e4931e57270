"""Do the numbers on record follow from the raw data, in the units that their names state?"""

from __future__ import annotations

import math
from collections.abc import Mapping

from verifiers.evidence import Evidence, TrialEvidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "units.consistent"
_SLACK = 1e-6
"Relative: sums may be added in another order by another version of numpy."
_SLIPS: Mapping[float, str] = {
    1000.0: "1000 (seconds for milliseconds, or k for one)",
    1024.0: "1024 (KiB for bytes, or MiB for KiB)",
    1e6: "a million (seconds for microseconds, or M for one)",
    1024.0**2: "1024 x 1024 (MiB for bytes)",
    60.0: "60 (minutes for seconds)",
    3600.0: "3600 (hours for seconds)",
    100.0: "100 (percent for a share)",
    8.0: "8 (bits for bytes)",
}


def verify(evidence: Evidence) -> Verdict:
    """The summary that each trial's entry claims is the one that its raw records give; and the raw records' own numbers
    fit together: no latency is negative or longer than the whole measurement, no more tokens came than were asked."""
    if not evidence.measured:
        return error(RULE, "no trial was measured")
    count = 0
    for trial, _ in evidence.measured:
        if not trial.recorded_summary:
            return error(RULE, f"the entry of trial {trial.id} claims no summary", trial)
        problem = _claims(trial) or _plausible(trial)
        if problem:
            return failed(RULE, f"trial {trial.id}: {problem}", trial)
        count += len(trial.summary)
    told = f"all {count} claimed numbers of {len(evidence.measured)} trials follow from the raw records"
    return passed(RULE, told, *evidence.trials)


def _claims(trial: TrialEvidence) -> str:
    for name in sorted(trial.summary.keys() | trial.recorded_summary.keys()):
        if name not in trial.summary:
            return f"its entry claims {name} = {trial.recorded_summary[name]:g}, which the raw records don't give"
        if name not in trial.recorded_summary:
            return f"its entry leaves out {name}, which is {trial.summary[name]:g} by the raw records"
        true, claimed = trial.summary[name], trial.recorded_summary[name]
        if not math.isclose(true, claimed, rel_tol=_SLACK, abs_tol=1e-9):
            told = f"its entry claims {name} = {claimed:g}, the raw records give {true:g}"
            return told + _slip(true, claimed)
    return ""


def _slip(true: float, claimed: float) -> str:
    """Which unit was probably meant, where the factor tells."""
    if true <= 0 or claimed <= 0:
        return ""
    factor = max(true / claimed, claimed / true)
    near = next((told for slip, told in _SLIPS.items() if math.isclose(factor, slip, rel_tol=0.005)), "")
    return f": off by {near}" if near else f": off by a factor of {factor:.3g}"


def _plausible(trial: TrialEvidence) -> str:
    """Bounds between numbers of different units: a slip in the raw records breaks them."""
    summary = trial.summary
    window_ms = 1000 * summary.get("duration", math.inf)
    for name, value in summary.items():
        if value < 0:
            return f"{name} is {value:g}"
        one_request = name.endswith("_ms") and not name.startswith("std") and "_task_" not in name
        if one_request and value > window_ms * (1 + _SLACK):
            return f"{name} is {value:g} ms, and the whole measurement took {window_ms:g} ms"
    tokens = summary.get("output_throughput", 0.0) * summary.get("duration", 0.0)
    asked = sum(trial.asked_tokens)
    if tokens > asked * (1 + _SLACK):
        return f"{tokens:.0f} output tokens came where {asked} were asked for: bytes or characters, not tokens"
    return ""
