"""Was every trial driven with the deployment's own workload, whole, on its schedule, both sides alike?"""

from __future__ import annotations

from tools.measure.measurement import Measurement
from tools.service.load_spec import at_load
from tools.service.soak import soaking
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "workload.same"
_SLACK_S = 0.001
"Of a moment at which a request was due: the schedule is kept to the microsecond, records may be rounded."


def verify(evidence: Evidence) -> Verdict:
    """Same distribution by digest, as many requests as it has, each due when the workload says; within a block the
    very same requests; the same extensions of the API everywhere."""
    if not evidence.measured:
        return error(RULE, "no trial was measured")
    offered = 0
    for trial, measured in evidence.measured:
        own = evidence.deployment.workload
        spec = soaking(own) if trial.role == "soak" else at_load(own, trial.load_factor)
        if trial.spec_digest != spec.digest:
            return failed(RULE, f"trial {trial.id} ran another workload than the deployment's", trial)
        if not trial.due_s:
            return error(RULE, f"the schedule of trial {trial.id} is unknown", trial)
        problem = _problem(trial, measured)
        if problem:
            return failed(RULE, f"trial {trial.id}: {problem}", trial)
        offered += measured.offered
    first, first_measured = evidence.measured[0]
    blocks: dict[int | None, tuple[TrialEvidence, Measurement]] = {}
    for trial, measured in evidence.measured:
        if measured.extras != first_measured.extras:
            told = f"{', '.join(first_measured.extras) or 'none'} for {first.id}, for {trial.id} "
            told += ", ".join(measured.extras) or "none"
            return failed(RULE, f"the trials were driven with different extensions of the API: {told}", first, trial)
        partner, other = blocks.setdefault(trial.block, (trial, measured))
        if trial.block is not None and measured.workload_digest != other.workload_digest:
            told = f"trials {partner.id} and {trial.id} of block {trial.block} were driven with different requests"
            return failed(RULE, told, partner, trial)
    told = f"all {offered} requests are the deployment's own, offered when its workload says"
    return passed(RULE, told, *evidence.trials)


def _problem(trial: TrialEvidence, measured: Measurement) -> str:
    if measured.cut_short:
        return "the load was stopped before its end"
    if measured.offered != len(trial.asked_tokens):
        return f"{measured.offered} requests were offered, the workload has {len(trial.asked_tokens)}"
    for record in measured.records:
        due_s = trial.due_s[record.index] if 0 <= record.index < len(trial.due_s) else None
        if due_s is not None and record.turn == 0 and abs(record.scheduled_s - due_s) > _SLACK_S:
            return f"request {record.index} was offered at {record.scheduled_s:.3f} s, the workload says {due_s:.3f} s"
    return ""
