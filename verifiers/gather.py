"""Gather: the evidence that a run's ledger holds, every summary derived anew from the raw records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tools.deployment import Deployment
from tools.errors import UserError
from tools.evals.results import EvalResults
from tools.ledger import Entry, LedgerView
from tools.measure.floor import Floor
from tools.measure.measurement import Measurement
from tools.measure.summary import summarise
from tools.measure.workload import materialise, sharing_bound
from tools.service.load_spec import at_load
from tools.service.soak import soaking
from tools.targets.knobs import Config, KnobSpace
from verifiers.catalogue import STAGES
from verifiers.evidence import Attempt, Change, Evidence, TrialEvidence
from verifiers.machine import machine_of
from verifiers.plan import Plan

__all__ = ["gather"]


def gather(ledger: LedgerView) -> Evidence:
    """All evidence that `ledger` holds.

    Raises:
        UserError: the ledger has no `run.started` or `survey` entry, so nothing can be judged.
    """
    facts: dict[str, Any] = {}
    began: dict[str, float] = {}
    trials: dict[str, list[TrialEvidence]] = {"search": [], "confirm": [], "extra": []}
    for entry in ledger:
        if entry.kind in ("run.started", "survey"):
            facts.update(entry.data)
        elif entry.kind == "trial.started":
            began[entry.data["id"]] = entry.time
        elif entry.kind == "trial":
            trial = _trial(entry, Deployment.model_validate(facts["deployment"]), ledger, began)
            trials[_GROUPS[trial.role]].append(trial)
    if "deployment" not in facts or "memory_bytes" not in facts:
        raise UserError(f"{ledger.path}: expected a run with a survey, found one that was stopped before; resume it")
    deployment = Deployment.model_validate(facts["deployment"])
    space = KnobSpace.from_json(facts["knobs"])
    client, machine = ledger.find("client"), machine_of(ledger)
    evidence = Evidence(
        deployment=deployment,
        managed=frozenset(facts["managed"]),
        space=space,
        baseline=space.resolve(deployment.config),
        workload_spec_digest=deployment.workload.digest,
        memory_bytes=facts["memory_bytes"],
        floors_ms=machine.floors_ms,
        model_digest=facts["model_digest"],
        client_floor=Floor.from_json(client.data) if client else None,
        roofline=machine.roofline,
        physics=machine.physics,
        trials=tuple(trials["search"]),
        search=tuple(trials["search"]),
        extra=tuple(trials["extra"]),
        asked={stage: tuple(rule.id for rule in rules) for stage, rules in STAGES.items()},
        entries=tuple(ledger),
    )
    return _with_change(_with_plan(evidence, ledger, tuple(trials["confirm"])), ledger)


_GROUPS = {"baseline": "search", "search": "search", "confirm": "confirm", "soak": "extra", "rollback": "extra"}


def _with_plan(evidence: Evidence, ledger: LedgerView, confirmed: tuple[TrialEvidence, ...]) -> Evidence:
    entry = ledger.find("plan")
    if entry is None:
        return evidence
    return replace(
        evidence,
        candidate=evidence.baseline.patched(entry.data["patch"]),
        patch=entry.data["patch"],
        memory_need_bytes=entry.data["memory_need_bytes"],
        plan=Plan.from_json(entry.data["plan"]),
        plan_digest=entry.data["plan_digest"],
        plan_seq=entry.seq,
        attempts=tuple(Attempt(**attempt) for attempt in entry.data.get("attempts", [])),
        trials=confirmed,
    )


def _with_change(evidence: Evidence, ledger: LedgerView) -> Evidence:
    entry = ledger.find("change")
    if entry is None:
        return evidence
    return replace(evidence, change=Change.from_json(entry.data))


def _trial(entry: Entry, deployment: Deployment, ledger: LedgerView, began: dict[str, float]) -> TrialEvidence:
    data = entry.data
    load_factor = data.get("load_factor", 1.0)
    spec = soaking(deployment.workload) if data["role"] == "soak" else at_load(deployment.workload, load_factor)
    workload = materialise(spec, data["seed"])
    raw = ledger.get_json(data["raw_blob"]) if data["raw_blob"] else None
    measurement = Measurement.from_json(raw["measurement"]) if raw else None
    # Re-derived from spec, load factor and seed: is what was measured the deployment's workload?
    same = measurement is None or measurement.workload_digest == workload.digest
    return TrialEvidence(
        id=data["id"],
        seq=entry.seq,
        role=data["role"],
        arm=data["arm"],
        config=Config(data["config"]),
        seed=data["seed"],
        spec_digest=spec.digest if same else "altered",
        asked_tokens=tuple(request.max_tokens for request in workload.requests),
        declared_sharing=sharing_bound(workload, measurement.records) if measurement else None,
        environment=data["environment"],
        measurement=measurement,
        failure=data["failure"]["kind"] if data["failure"] else "",
        evals=EvalResults.from_json(raw["evals"]) if raw and raw["evals"] else None,
        summary=summarise(measurement, deployment.slo) if measurement else {},
        recorded_summary=data["summary"],
        prompt_words=tuple(workload.prompt_words),
        load_factor=load_factor,
        block=data.get("block"),
        ready_s=data["ready_s"],
        resources=data.get("resources", {}),
        began_at=began.get(data["id"], 0.0),
        recorded_at=entry.time,
        due_s=tuple(request.scheduled_s for request in workload.requests),
    )
