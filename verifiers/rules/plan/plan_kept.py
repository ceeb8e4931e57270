"""Was the confirmation fixed before its first trial, carried out as planned, and stopped where its rule says?"""

from __future__ import annotations

import math

from tools.service.load_spec import at_load
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.looking import look_after
from verifiers.plan import DESIGN, Plan
from verifiers.statistics.blocks import LAUNCHES, noise_of_one
from verifiers.verdict import Verdict, error, failed, passed

RULE = "plan.kept"


def verify(evidence: Evidence) -> Verdict:
    """Plan recorded first, its hash unchanged, its slots measured in order, and an end where the looks say so.

    Every look is derived anew from the raw records, so a confirmation that stopped when it looked best, or that went on
    until it did, is seen. What is aimed at, the seeds and the level are other questions' business.
    """
    plan, trials = evidence.plan, evidence.confirmation
    if plan is None:
        return error(RULE, "there is no plan")
    if plan.digest != evidence.plan_digest:
        return failed(RULE, "the plan isn't the one that was hashed into the ledger")
    if evidence.candidate is None or plan.candidate_digest != evidence.candidate.digest:
        return failed(RULE, "the plan is for another candidate")
    if _shape(plan) != _shape(_expected(evidence, plan)) or not _foretold(evidence, plan):
        return failed(RULE, "the plan isn't what the deployment's acceptance section asks for")
    if not trials:
        return error(RULE, "no planned trial was carried out")
    early = [trial for trial in trials if trial.seq < evidence.plan_seq]
    if early:
        return failed(RULE, f"trial {early[0].id} was measured before the plan was fixed", *early)
    if len(trials) > len(plan.slots) or len(trials) % LAUNCHES:
        return error(RULE, f"{len(trials)} trials aren't whole blocks of {len(plan.slots)} planned ones", *trials)
    wrong = _out_of_place(evidence, plan, trials)
    return wrong or _stopped(evidence, plan, trials)


def _expected(evidence: Evidence, plan: Plan) -> Plan:
    drawn = Plan.draw
    return drawn(
        plan.run,
        evidence.deployment,
        evidence.baseline.digest,
        plan.candidate_digest,
        noise=plan.noise,
        attempts=plan.attempts,
    )


def _shape(plan: Plan) -> tuple[object, ...]:
    blocks = tuple((block.order, block.load_factor) for block in plan.blocks)
    return plan.design, plan.baseline_digest, blocks, plan.design == DESIGN


def _foretold(evidence: Evidence, plan: Plan) -> bool:
    """Whether the noise that the plan was made with is what the baseline's launches showed before it."""
    metric = evidence.deployment.objective.metric
    values = [t.summary[metric] for t in evidence.search if t.role == "baseline" and metric in t.summary]
    seen = noise_of_one(values)
    if seen is None or plan.noise is None:
        return seen is plan.noise
    return math.isclose(seen, plan.noise, rel_tol=1e-9, abs_tol=1e-12)


def _out_of_place(evidence: Evidence, plan: Plan, trials: tuple[TrialEvidence, ...]) -> Verdict | None:
    for slot, trial in zip(plan.slots, trials, strict=False):  # a clear answer leaves slots unused
        config = evidence.baseline if slot.arm == "A" else evidence.candidate
        if (trial.arm, trial.seed, trial.config, trial.block) != (slot.arm, slot.seed, config, slot.block):
            return failed(RULE, f"trial {trial.id} isn't the one planned for its place", trial)
        if trial.spec_digest != at_load(evidence.deployment.workload, slot.load_factor).digest:
            return failed(RULE, f"trial {trial.id} ran another workload than the deployment's", trial)
    return None


def _stopped(evidence: Evidence, plan: Plan, trials: tuple[TrialEvidence, ...]) -> Verdict:
    blocks = len(trials) // LAUNCHES
    said = ""
    recorded = {entry.data.get("blocks"): entry.data.get("decision") for entry in evidence.of_kind("look")}
    for number in range(1, blocks + 1):
        found = look_after(evidence, plan, number)
        decision, said = (found.decision, found.why) if found else ("exhausted", f"{plan.metric} can't be told")
        if recorded.get(number, decision) != decision:
            return failed(RULE, f"look {number} is recorded as {recorded[number]}, the records say {decision}", *trials)
        if number < blocks and decision != "go_on":
            return failed(RULE, f"it went on after block {number}, where its rule stops: {decision}, {said}", *trials)
        if number == blocks and decision == "go_on":
            return failed(
                RULE, f"it stopped after block {number} of {len(plan.blocks)}, where its rule goes on", *trials
            )
    order = "".join(trial.arm for trial in trials)
    stop = f"stopped after block {blocks} of at most {len(plan.blocks)} as its rule says: {said}"
    return passed(RULE, f"{len(trials)} fresh launches in the planned order {order}, {stop}", *trials)
