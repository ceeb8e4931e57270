"""Who decides: pure functions from evidence to a verdict, and the gate that runs them cheap to dear.

A verifier asks one question, reads only `Evidence`, and answers PASS, FAIL, INCONCLUSIVE or ERROR with a stable rule
id, one sentence for a person, and the ids of the evidence it rests on. Missing data is never PASS. Only PASS commits.
"""

from verifiers.catalogue import FAMILIES, RULES, STAGES
from verifiers.evidence import Attempt, Change, Evidence, ManifestChange, TrialEvidence
from verifiers.gate import Judgement, judge
from verifiers.gather import gather
from verifiers.looking import look_after
from verifiers.plan import Plan
from verifiers.rule import Rule, Stage
from verifiers.verdict import Status, Verdict

__all__ = [
    "FAMILIES",
    "RULES",
    "STAGES",
    "Attempt",
    "Change",
    "Evidence",
    "Judgement",
    "ManifestChange",
    "Plan",
    "Rule",
    "Stage",
    "Status",
    "TrialEvidence",
    "Verdict",
    "gather",
    "judge",
    "look_after",
]
