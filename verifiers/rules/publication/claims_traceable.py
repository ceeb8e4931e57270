"""Does every figure in prose that people are shown rest on something recorded?"""

from __future__ import annotations

from verifiers.claims import cells_of, untraceable
from verifiers.claims.parse import MOST_CHARS
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "claims.traceable"


def verify(evidence: Evidence) -> Verdict:
    """A numeral next to a metric, a percent sign or a unit equals a recorded figure at the rounding it is shown in.

    Read are the commit's message and every proposer's text that people are shown. Other numerals are nobody's business.
    """
    if evidence.change is None:
        return error(RULE, "it isn't recorded what would be published")
    texts = {"the commit's message": evidence.change.message}
    texts |= {f"text {number} by the proposer": said for number, said in enumerate(evidence.change.prose, start=1)}
    cells = cells_of(evidence)
    for place, text in texts.items():
        if len(text) > MOST_CHARS:
            return failed(RULE, f"{place} is {len(text)} characters long; up to {MOST_CHARS} can be checked")
        if claims := untraceable(text, cells, evidence.deployment.objective.metric):
            return failed(RULE, f"{place} says {claims[0].text!r}, and nothing measured says so")
    return passed(RULE, f"every figure in {len(texts)} texts is one of {len(cells)} recorded ones")
