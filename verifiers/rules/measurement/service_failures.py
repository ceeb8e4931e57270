"""Were requests refused, given up or lost that the baseline would have answered?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

from scipy.stats import fisher_exact

from tools.measure.measurement import Measurement
from verifiers.evidence import Evidence
from verifiers.sides import Measured, sides
from verifiers.verdict import Verdict, error, failed, inconclusive, passed

RULE = "service.failures"
_SURE = 0.01
"Level of each exact test, one-sided."
_COUNTERS = ("rejected", "aborted")


def verify(evidence: Evidence) -> Verdict:
    """Of the *offered* requests, those that got no answer: refused, failed, timed out, by the client's records, and
    rejected or aborted by the engine's own counters. More than the baseline's beyond chance (Fisher's exact test,
    one-sided) fails: shedding load makes every other number better.

    The client's count and the engine's are tested apart: a proxy that hides one doesn't hide the other.
    """
    if not evidence.measured:
        return error(RULE, "no trial was measured")
    both = sides(evidence)
    for trial, measured in (*both.baseline, *both.candidate):
        if measured.offered <= 0:
            return error(RULE, f"trial {trial.id} offered no request", trial)
        exported = [counter for counter in _COUNTERS if evidence.counts(counter)]
        silent = [counter for counter in exported if not math.isfinite(measured.counted(counter) or 0.0)]
        silent += [counter for counter in exported if measured.counted(counter) is None]
        if silent:
            return error(RULE, f"the server of trial {trial.id} doesn't count requests {silent[0]}", trial)
    if both.unpaired:
        return inconclusive(RULE, "there is no baseline to compare the failures with", *both.trials)
    if not both.candidate:
        return passed(RULE, f"the baseline by itself: {_told(both.baseline)}", *both.trials)
    for what, count in (("without an answer", _lost), ("turned away by the engine", _turned_away)):
        before, after = _share(both.baseline, count), _share(both.candidate, count)
        table = [[after[0], after[1] - after[0]], [before[0], before[1] - before[0]]]
        p = float(fisher_exact(table, alternative="greater").pvalue)
        if p < _SURE:
            told = (
                f"{after[0]} of {after[1]} requests {what}, {before[0]} of {before[1]} with the baseline (p = {p:.1g})"
            )
            return failed(RULE, f"{told}: {_told(both.candidate)}", *both.trials)
    return passed(RULE, f"{_told(both.candidate)}; with the baseline {_told(both.baseline)}", *both.trials)


def _lost(measured: Measurement) -> int:
    """Offered requests that weren't completed; one without a record is lost as well."""
    return max(measured.offered - measured.completed, 0)


def _turned_away(measured: Measurement) -> int:
    return round(sum(_counted(measured, counter) for counter in _COUNTERS))


def _counted(measured: Measurement, counter: str) -> float:
    """Nothing where its engine never tells: the client's own count is asked besides."""
    return measured.counted(counter) or 0.0


def _share(side: tuple[Measured, ...], count: Callable[[Measurement], int]) -> tuple[int, int]:
    offered = sum(measured.offered for _, measured in side)
    # An engine may turn a request away more than once, where something in between tries again.
    return min(sum(count(measured) for _, measured in side), offered), offered


def _told(side: tuple[Measured, ...]) -> str:
    """How many of how many, and how they were lost."""
    offered = sum(measured.offered for _, measured in side)
    classes: Counter[str] = Counter()
    for _, measured in side:
        classes.update(
            "timed out" if record.outcome == "timed_out" else record.error.partition(":")[0] or "failed"
            for record in measured.records
            if record.outcome != "ok"
        )
        for counter in _COUNTERS:
            classes[f"{counter} by the engine"] += round(_counted(measured, counter))
    kinds = ", ".join(f"{name} {count}" for name, count in classes.most_common() if count)
    lost = sum(_lost(measured) for _, measured in side)
    return f"{lost} of {offered} requests weren't answered" + (f" ({kinds})" if kinds else "")
