"""Does the candidate fit into the machine's memory by the closed formula, with room to spare?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "feasibility.memory"

LEAST_FREE = 0.05
"""Share of the memory that stays free: a formula is no measurement, and a burst needs some. An owner's baseline may
leave less; then a candidate may need as much as that, and no more."""


def verify(evidence: Evidence) -> Verdict:
    """Weights + KV cache + activations + overhead, in bytes, against the memory of the device less a margin."""
    if evidence.unfit:
        return failed(RULE, evidence.unfit)
    need, have = evidence.memory_need_bytes, evidence.memory_bytes
    if need is None or not have:
        return error(RULE, "the memory formula or the machine's memory is unknown")
    if need > have:
        return failed(RULE, f"needs {_gib(need)} GiB of memory by the closed formula, the machine has {_gib(have)} GiB")
    allowed = max(have * (1 - LEAST_FREE), _baseline_need(evidence))
    if need > allowed:
        return failed(
            RULE,
            f"needs {_gib(need)} of {_gib(have)} GiB of memory by the closed formula: {1 - need / have:.1%} would stay "
            f"free, {LEAST_FREE:.0%} must",
        )
    return passed(RULE, f"needs {_gib(need)} of {_gib(have)} GiB of memory by the closed formula")


def _baseline_need(evidence: Evidence) -> float:
    """Of the config that runs today, as the survey worked it out; 0 where no survey says."""
    surveys = evidence.of_kind("survey")
    return float(surveys[0].data.get("memory_need_bytes", 0)) if surveys else 0.0


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.2f}"
