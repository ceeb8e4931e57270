"""Does the proposal touch only what it may, with values that may stand there?  Default-deny."""

from __future__ import annotations

from tools.targets.knobs import KnobError
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, failed, passed

RULE = "policy.knobs"


def verify(evidence: Evidence) -> Verdict:
    """Every changed knob exists, is managed in the deployment file, tunable, lossless, and has a value in its range."""
    changed = evidence.changes
    if not changed:
        return failed(RULE, "the proposal changes nothing")
    for name, value in sorted(changed.items()):
        try:
            knob = evidence.space[name]
            knob.check(value)
        except KnobError as refusal:
            return failed(RULE, str(refusal))
        if name not in evidence.managed:
            return failed(RULE, f"{name} isn't marked `# autotune: managed` in the deployment file")
        if not knob.tunable:
            return failed(RULE, f"{name} bounds service or safety; only the owner may set it")
        if knob.outputs == "lossy" and evidence.deployment.quality == "lossless":
            return failed(
                RULE, f"{name} can change what the model says, and the deployment declares `quality: lossless`"
            )
    return passed(RULE, f"changes only managed, lossless knobs within their ranges: {', '.join(sorted(changed))}")
