"""Did the judges, the deployment, the workload and the playbook stay the same from the first entry to this verdict?"""

from __future__ import annotations

from verifiers.digest import verifiers_digest
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "integrity.harness"

_JUDGED = ("preflight", "judgement", "look", "verdict")


def verify(evidence: Evidence) -> Verdict:
    """Every judgement names the same verifiers' code, and what was read again before publishing is what was read first.

    The code that answers now must be that code too; who derives a publication anew with later code has to say so.
    """
    started, now = evidence.of_kind("run.started"), evidence.of_kind("harness")
    if not started or not now:
        return error(RULE, "it isn't recorded what deployment, playbook and verifiers were at the start and are now")
    first, last = started[0].data, now[-1].data
    judge = first["verifiers_digest"]
    for entry in evidence.entries:
        if entry.kind in _JUDGED and entry.data.get("verifiers_digest", judge) != judge:
            return failed(RULE, f"entry {entry.seq} was judged by other code than the run began with")
    if verifiers_digest() != judge:
        return failed(RULE, "the verifiers' code changed while the run was under way")
    pairs = {
        "the deployment's text": (first["file_text"], last["file_text"]),
        "the playbook": (first["playbook"]["digest"], last["playbook_digest"]),
        "the workload": (evidence.workload_spec_digest, last["workload_digest"]),
        "the verifiers' code": (judge, last["verifiers_digest"]),
    }
    if changed := [name for name, (then, today) in pairs.items() if then != today]:
        return failed(RULE, f"{' and '.join(changed)} changed while the run was under way")
    return passed(RULE, f"one judge ({judge[:12]}), one deployment, one workload and one playbook throughout")
