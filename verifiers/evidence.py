"""Evidence: what a verdict may rest on. Plain data; `verifiers.gather` reads it from ledger entries and their blobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tools.deployment import Deployment
from tools.evals.results import EvalResults
from tools.ledger import Entry
from tools.measure.floor import Floor
from tools.measure.measurement import Measurement
from tools.targets.exports import exports_of
from tools.targets.knobs import Config, KnobSpace, Value
from tools.targets.spec import ExternalSpec
from verifiers.plan import Plan

__all__ = ["Attempt", "Change", "Evidence", "ManifestChange", "TrialEvidence"]


@dataclass(frozen=True)
class TrialEvidence:
    """One trial as the ledger holds it. `summary` is derived from the raw records here, never read from anywhere."""

    id: str
    seq: int
    "Place in the ledger."
    role: str
    "baseline | search | confirm | soak | rollback"
    arm: str
    "A or B in a confirmation; A for a baseline or rollback trial, B for a search or soak trial."
    config: Config
    seed: int
    spec_digest: str
    "Of the workload that was measured; `altered` where it isn't what spec, seed and load factor give."
    asked_tokens: tuple[int, ...]
    "Output tokens that each request of the workload asks for, in order of its requests."
    declared_sharing: float | None
    "Largest prefix-hit rate that the workload allows an honest cache, 0..1; None without token counts."
    environment: str
    "Fingerprint of hardware and software."
    measurement: Measurement | None = None
    failure: str = ""
    "Kind of the failure of a trial that has no measurement."
    evals: EvalResults | None = None
    summary: Mapping[str, float] = field(default_factory=dict)
    recorded_summary: Mapping[str, float] = field(default_factory=dict)
    "What the ledger's entry claims the summary is."
    prompt_words: tuple[int, ...] = ()
    "Words of each request's prompt, in order of the workload's requests: before anything was sent."
    load_factor: float = 1.0
    "Offered load as a share of the deployment's own; confirmations also measure above and below it."
    block: int | None = None
    "Block of the confirmation that it belongs to, from 0."
    ready_s: float = 0.0
    "Seconds from launch to ready."
    resources: Mapping[str, float] = field(default_factory=dict)
    "What it ran on and with: cores, gpus, replicas (server processes), and rss_before_bytes, rss_after_bytes."
    began_at: float = 0.0
    "Unix seconds by the harness's clock when it was announced; 0 where it wasn't."
    recorded_at: float = 0.0
    "Unix seconds by the harness's clock when its entry was written."
    due_s: tuple[float | None, ...] = ()
    """When the workload wants each request sent, in order of its requests, seconds from the start; None where that
    depends on answers (later turns, closed loops)."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An earlier confirmation of the same change of the same deployment, in another run."""

    run: str
    at: float
    "Unix seconds."
    verdict: str
    "Its status; `none` where it never came to one."


@dataclass(frozen=True)
class ManifestChange:
    """What is about to be committed of the manifest in which the config stands besides; whole texts."""

    file: str
    "Relative to the repository's root."
    before_text: str
    after_text: str
    reverted_text: str
    current_text: str
    current_object: str = ""
    "The same as in `Change`."


@dataclass(frozen=True)
class Change:
    """What is about to be committed, as the harness recorded it before it does."""

    file: str
    "The deployment file, relative to the repository's root."
    files: tuple[str, ...]
    "All files that the commit would change."
    before_text: str
    "The file as the run found it."
    after_text: str
    "The file as it would be committed."
    reverted_text: str
    "What applying the reverse change to `after_text` gave."
    current_text: str
    "The file as it lies in the checkout now."
    base_head: str
    "Commit on which the run began."
    current_head: str
    "Commit that the checkout stands on now: what would be committed is built on it."
    message: str
    "The commit's whole message, trailers left out."
    prose: tuple[str, ...]
    "Every text by a proposer that people are shown: hypotheses, reasons."
    current_object: str = ""
    "Git's id of the file's content in `current_head`; empty where it isn't in it."
    manifest: ManifestChange | None = None
    "None where the deployment names no manifest, and in records of before there were any."

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Change:
        """The change that an entry of the ledger holds."""
        manifest = data.get("manifest")
        whole = {**data, "files": tuple(data["files"]), "prose": tuple(data["prose"])}
        return cls(**{**whole, "manifest": ManifestChange(**manifest) if manifest else None})

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "files": list(self.files), "prose": list(self.prose)}


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
    roofline: Mapping[str, Any] = field(default_factory=dict)
    "The machine's measured rates and the model's bytes, as the survey recorded them (see tools.profile)."
    physics: Mapping[str, Any] = field(default_factory=dict)
    "What a token costs with the model: `model`, as `tools.profile.physics.ModelFacts` writes it; empty where unknown."
    candidate: Config | None = None
    patch: Mapping[str, Value] = field(default_factory=dict)
    "The proposal's own words: knobs and values as they were said, before they made up `candidate`."
    memory_need_bytes: int | None = None
    unfit: str = ""
    "Why the memory model can't hold the candidate at all: values that don't go together."
    plan: Plan | None = None
    plan_digest: str = ""
    plan_seq: int = -1
    attempts: tuple[Attempt, ...] = ()
    trials: tuple[TrialEvidence, ...] = ()
    search: tuple[TrialEvidence, ...] = ()
    extra: tuple[TrialEvidence, ...] = ()
    "The candidate's soak and the rollback drill."
    change: Change | None = None
    asked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    "Ids of the rules that the catalogue asks, by stage."
    entries: tuple[Entry, ...] = ()
    "The whole ledger, for questions about the run itself."

    def counts(self, counter: str) -> bool:
        """Whether the deployment's engine exports `counter` (of `tools.targets.target.Counters`) at all: one that it
        never exports can't be asked for, one that it does and that is missing was withheld."""
        if not isinstance(self.deployment.target, ExternalSpec):
            return counter in exports_of(self.deployment.target)
        # Somebody else's may export or hide what it likes, and hides no more from the candidate than from the baseline.
        first = next((trial.measurement for trial in (*self.search, *self.trials) if trial.measurement), None)
        return first is not None and counter in (first.counters_before or {})

    @property
    def no_physics(self) -> str:
        """Why no floor and no ceiling follow from the machine, as the survey recorded it; empty where they do."""
        return str(self.physics.get("unknown", ""))

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

    @property
    def measured(self) -> tuple[tuple[TrialEvidence, Measurement], ...]:
        """The trials in question that have a measurement, each with it."""
        return tuple((trial, trial.measurement) for trial in self.trials if trial.measurement is not None)

    def arm(self, arm: str) -> tuple[TrialEvidence, ...]:
        return tuple(trial for trial in self.trials if trial.arm == arm)

    def values(self, arm: str, metric: str) -> list[float] | None:
        """The metric of every trial of an arm, in its own unit; None where any of them lacks it."""
        values = [trial.summary.get(metric) for trial in self.arm(arm)]
        known = [value for value in values if value is not None]
        return known if len(known) == len(values) else None

    def of_kind(self, kind: str) -> tuple[Entry, ...]:
        """Ledger entries of `kind`, oldest first."""
        return tuple(entry for entry in self.entries if entry.kind == kind)

    def proposing(self, candidate: Config, need_bytes: int | None, *, unfit: str = "") -> Evidence:
        """The same context with `candidate` proposed; what was tried before is in question beside it."""
        return replace(
            self,
            candidate=candidate,
            patch={name: new for name, (_, new) in self.baseline.diff(candidate).items() if new is not None},
            memory_need_bytes=need_bytes,
            unfit=unfit,
            trials=self.search,
        )

    def about(self, trials: Iterable[TrialEvidence]) -> Evidence:
        """The same context with other trials in question."""
        return replace(self, trials=tuple(trials))
