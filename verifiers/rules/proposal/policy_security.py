"""Does the proposal leave the server's doors, keys and logs as they are?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.rules.proposal.denied import ADDRESSES, SECURITY
from verifiers.verdict import Verdict, failed, passed

RULE = "policy.security"


def verify(evidence: Evidence) -> Verdict:
    """Where it listens, who is let in, transport encryption, development mode, and prompts in logs are the owner's."""
    for name, value in sorted({**evidence.changes, **evidence.patch}.items()):
        if why := SECURITY.why(name):
            return failed(
                RULE,
                f"{name} decides who reaches the server or what it reveals of its users ({why}); "
                "no proposal may set it, only the owner by hand",
            )
        if isinstance(value, str) and value.strip() in ADDRESSES:
            return failed(RULE, f"{name}: {value!r} would open the server to everybody; no proposal may")
    return passed(RULE, "touches no address, key, certificate, origin, development mode or log of prompts")
