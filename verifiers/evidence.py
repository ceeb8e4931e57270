"""Evidence: what a verdict may rest on, gathered from ledger entries and their blobs alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tools.deployment import Deployment
from tools.errors import UserError
from tools.evals.divergence import GreedyOutputs
from tools.ledger import Entry, LedgerView
from tools.measure.floor import Floor
from tools.measure.measurement import Measurement
from tools.measure.summary import summarise
from tools.measure.workload import materialise, sharing_bound
from tools.targets.knobs import Config, KnobSpace, Value
from verifiers.plan import Plan

__all__ = ["Evidence", "TrialEvidence", "gather"]


@dataclass(frozen=True)
class TrialEvidence:
    """One trial as the ledger holds it. `summary` is derived from the raw records here, never read from anywhere."""

    id: str
    seq: int
    "Place in the ledger."
    role: str
    "baseline | search | confirm"
    arm: str
    "A or B in a confirmation; A for a baseline trial, B for a search trial."
    config: Config
    seed: int
    spec_digest: str
    asked_tokens: tuple[int, ...]
    "Output tokens that each request of the workload asks for, in order of its requests."
    declared_sharing: float | None
    "Largest prefix-hit rate that the workload allows an honest cache, 0..1; None without token counts."
    environment: str
    "Fingerprint of hardware and software."
    measurement: Measurement | None = None
    failure: str = ""
    greedy: GreedyOutputs | None = None
    summary: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """Everything verifiers see. `trials` is what a stage's question is about; the rest is context."""

    deployment: Deployment
    managed: frozenset[str]
    space: KnobSpace
    baseline: Config
    workload_spec_digest: str
    memory_bytes: int
    floors_ms: Mapping[str, float]
    "The roofline's floors by latency, `ttft_ms` and `tpot_ms`."
    model_digest: str
    "Of the model that was asked for, read from its files before anything was launched."
    client_floor: Floor | None = None
    "Of the load generator, measured against a mock server before anything else; None in records that lack it."
    candidate: Config | None = None
    memory_need_bytes: int | None = None
    unfit: str = ""
    "Why the memory model can't hold the candidate at all: values that don't go together."
    plan: Plan | None = None
    plan_digest: str = ""
    plan_seq: int = -1
    trials: tuple[TrialEvidence, ...] = ()
    search: tuple[TrialEvidence, ...] = ()

    @property
    def changes(self) -> dict[str, Value | None]:
        """Knobs that the candidate changes, with their new values."""
        if self.candidate is None:
            return {}
        return {name: new for name, (_, new) in self.baseline.diff(self.candidate).items()}

    @property
    def confirmation(self) -> tuple[TrialEvidence, ...]:
        """The confirmation's trials, in the order they were measured."""
        return tuple(trial for trial in self.trials if trial.role == "confirm")

    def arm(self, arm: str) -> tuple[TrialEvidence, ...]:
        return tuple(trial for trial in self.trials if trial.arm == arm)

    def values(self, arm: str, metric: str) -> list[float] | None:
        """The metric of every trial of an arm, in its own unit; None where any of them lacks it."""
        values = [trial.summary.get(metric) for trial in self.arm(arm)]
        known = [value for value in values if value is not None]
        return known if len(known) == len(values) else None

    def proposing(self, candidate: Config, need_bytes: int | None, *, unfit: str = "") -> Evidence:
        """The same context with `candidate` proposed; what was tried before is in question beside it."""
        return replace(
            self,
            candidate=candidate,
            memory_need_bytes=need_bytes,
            unfit=unfit,
            trials=self.search,
        )

    def about(self, trials: Iterable[TrialEvidence]) -> Evidence:
        """The same context with other trials in question."""
        return replace(self, trials=tuple(trials))


def gather(ledger: LedgerView) -> Evidence:
    """All evidence that a run's ledger holds, every summary derived anew from the raw records.

    Raises:
        UserError: the ledger has no `run.started` or `survey` entry, so nothing can be judged.
    """
    facts: dict[str, Any] = {}
    searched: list[TrialEvidence] = []
    confirmed: list[TrialEvidence] = []
    for entry in ledger:
        if entry.kind in ("run.started", "survey"):
            facts.update(entry.data)
        elif entry.kind == "trial":
            deployment = Deployment.model_validate(facts["deployment"])
            trial = _trial(entry, deployment, ledger)
            (confirmed if trial.role == "confirm" else searched).append(trial)
    if "deployment" not in facts or "memory_bytes" not in facts:
        raise UserError(f"{ledger.path}: expected a run with a survey, found one that was stopped before; resume it")
    space = KnobSpace.from_json(facts["knobs"])
    deployment = Deployment.model_validate(facts["deployment"])
    baseline = space.resolve(deployment.config)
    evidence = Evidence(
        deployment=deployment,
        managed=frozenset(facts["managed"]),
        space=space,
        baseline=baseline,
        workload_spec_digest=deployment.workload.digest,
        memory_bytes=facts["memory_bytes"],
        floors_ms=facts["floors"],
        model_digest=facts["model_digest"],
        trials=tuple(searched),
        search=tuple(searched),
    )
    client_entry = ledger.find("client")
    if client_entry is not None:
        evidence = replace(evidence, client_floor=Floor.from_json(client_entry.data))
    plan_entry = ledger.find("plan")
    if plan_entry is None:
        return evidence
    return replace(
        evidence,
        candidate=baseline.patched(plan_entry.data["patch"]),
        memory_need_bytes=plan_entry.data["memory_need_bytes"],
        plan=Plan.from_json(plan_entry.data["plan"]),
        plan_digest=plan_entry.data["plan_digest"],
        plan_seq=plan_entry.seq,
        trials=tuple(confirmed),
    )


def _trial(entry: Entry, deployment: Deployment, ledger: LedgerView) -> TrialEvidence:
    data = entry.data
    workload = materialise(deployment.workload, data["seed"])
    raw = ledger.get_json(data["raw_blob"]) if data["raw_blob"] else None
    measurement = Measurement.from_json(raw["measurement"]) if raw else None
    greedy = GreedyOutputs.from_json(raw["greedy"]) if raw and raw["greedy"] else None
    if measurement is not None and measurement.workload_digest != workload.digest:
        # Re-derived from spec and seed: what was measured isn't the deployment's workload.
        spec_digest = measurement.spec_digest if measurement.spec_digest != deployment.workload.digest else "altered"
    else:
        spec_digest = deployment.workload.digest
    return TrialEvidence(
        id=data["id"],
        seq=entry.seq,
        role=data["role"],
        arm=data["arm"],
        config=Config(data["config"]),
        seed=data["seed"],
        spec_digest=spec_digest,
        asked_tokens=tuple(request.max_tokens for request in workload.requests),
        declared_sharing=sharing_bound(workload, measurement.records) if measurement else None,
        environment=data["environment"],
        measurement=measurement,
        failure=data["failure"]["kind"] if data["failure"] else "",
        greedy=greedy,
        summary=summarise(measurement, deployment.slo) if measurement else {},
    )
