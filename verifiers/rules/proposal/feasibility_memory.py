"""Does the candidate fit into the machine's memory by the closed formula?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "feasibility.memory"


def verify(evidence: Evidence) -> Verdict:
    """Weights + KV cache + activations + overhead, in bytes, against the memory of the device."""
    if evidence.unfit:
        return failed(RULE, evidence.unfit)
    need, have = evidence.memory_need_bytes, evidence.memory_bytes
    if need is None or not have:
        return error(RULE, "the memory formula or the machine's memory is unknown")
    if need > have:
        return failed(RULE, f"needs {_gib(need)} GiB of memory by the closed formula, the machine has {_gib(have)} GiB")
    return passed(RULE, f"needs {_gib(need)} of {_gib(have)} GiB of memory by the closed formula")


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.2f}"
