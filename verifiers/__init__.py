"""Who decides: pure functions from evidence to a verdict, and the gate that runs them cheap to dear.

A verifier asks one question, reads only `Evidence`, and answers PASS, FAIL, INCONCLUSIVE or ERROR with a stable rule
id, one sentence for a person, and the ids of the evidence it rests on. Missing data is never PASS. Only PASS commits.
"""

from verifiers.evidence import Evidence, TrialEvidence, gather
from verifiers.gate import FAMILIES, Judgement, Stage, judge
from verifiers.plan import Plan
from verifiers.verdict import Status, Verdict

__all__ = [
    "FAMILIES",
    "Evidence",
    "Judgement",
    "Plan",
    "Stage",
    "Status",
    "TrialEvidence",
    "Verdict",
    "gather",
    "judge",
]
