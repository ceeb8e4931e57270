"""History: the exploration so far, read from the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tools.deployment import Deployment
from tools.ledger import Entry
from tools.measure.summary import lower_is_better
from tools.proposal import Proposal, Source
from tools.targets.knobs import Config, Value
from verifiers.faults import HARNESS_FAULTS
from verifiers.statistics.blocks import noise_of_one

__all__ = ["History", "Refused", "Tried"]


@dataclass(frozen=True)
class Tried:
    """One exploration trial with the judgement on it."""

    id: str
    seq: int
    "Place in the ledger."
    role: str
    "baseline | search"
    source: Source
    patch: Mapping[str, Value]
    config: Config
    seed: int
    wall_s: float
    "Seconds from launch to stopped."
    summary: Mapping[str, float]
    failure: Mapping[str, Any] | None
    hypothesis: str
    refusal: str
    "Sentence of the verdict that refused it; empty if none did."
    slo_misses: tuple[str, ...]
    guardrail_misses: tuple[str, ...]
    repeats_baseline: bool = False
    "A search trial of the baseline itself, measured again to learn the noise."

    @property
    def valid(self) -> bool:
        """Measured, and not refused by a verifier."""
        return self.failure is None and not self.refusal

    @property
    def spoilt(self) -> bool:
        """Not measured by a fault of the harness or the machine."""
        return self.failure is not None and self.failure["kind"] in HARNESS_FAULTS

    @property
    def outcome(self) -> str:
        return "refused" if self.refusal else self.failure["kind"] if self.failure else "ok"


@dataclass(frozen=True)
class Refused:
    """A proposal that was refused before a launch."""

    seq: int
    proposal: Proposal
    reason: str


@dataclass(frozen=True)
class History:
    """All exploration trials, in order."""

    tried: tuple[Tried, ...]
    refused: tuple[Refused, ...]
    "In order too."
    deployment: Deployment
    trial_seconds: float
    "Mean wall-clock seconds of a trial so far, launch included."

    @classmethod
    def read(cls, entries: Iterable[Entry], baseline: Config) -> History:
        deployment: Deployment | None = None
        judged: dict[str, Entry] = {}
        trials: list[Entry] = []
        refused: list[Refused] = []
        seconds: list[float] = []
        for entry in entries:
            if entry.kind == "run.started":
                deployment = Deployment.model_validate(entry.data["deployment"])
            elif entry.kind == "judgement":
                judged[entry.data["trial"]] = entry
            elif entry.kind == "preflight" and entry.data["status"] != "PASS":
                reason = next(v["sentence"] for v in entry.data["verdicts"] if v["status"] != "PASS")
                refused.append(Refused(entry.seq, Proposal.from_json(entry.data["proposal"]), reason))
            elif entry.kind == "trial":
                seconds.append(entry.data["wall_s"])
                if entry.data["role"] in ("baseline", "search"):
                    trials.append(entry)
        if deployment is None:
            raise ValueError("the ledger doesn't start with run.started")
        first = [t.data["summary"] for t in trials if t.data["role"] == "baseline"]
        tried = tuple(_tried(t, judged.get(t.data["id"]), deployment, first, baseline) for t in trials)
        return cls(tried, tuple(refused), deployment, fmean(seconds) if seconds else 0.0)

    @property
    def baselines(self) -> tuple[Tried, ...]:
        """Launches of the baseline that were measured, those that a proposer asked for among them."""
        return tuple(t for t in self.tried if (t.role == "baseline" or t.repeats_baseline) and t.valid)

    @property
    def candidates(self) -> tuple[Tried, ...]:
        """Search trials of anything but the baseline, which is never its own improvement."""
        return tuple(t for t in self.tried if t.role == "search" and not t.repeats_baseline)

    def objective(self, trial: Tried) -> float | None:
        """The trial's objective in the metric's own unit; None if it wasn't measured."""
        return trial.summary.get(self.deployment.objective.metric) if trial.valid else None

    @property
    def baseline_objective(self) -> float | None:
        values = [v for t in self.baselines if (v := self.objective(t)) is not None]
        return fmean(values) if values else None

    @property
    def noise(self) -> float | None:
        """Relative spread of the objective over the baseline's launches, (max - min) / mean; None below two."""
        values = [v for t in self.baselines if (v := self.objective(t)) is not None]
        if len(values) < 2 or fmean(values) == 0:
            return None
        return (max(values) - min(values)) / fmean(values)

    @property
    def spread(self) -> float | None:
        """Relative standard deviation of the objective over the baseline's launches (A/A); None below two."""
        return noise_of_one([v for t in self.baselines if (v := self.objective(t)) is not None])

    @property
    def incumbent(self) -> Tried | None:
        """The best candidate that was measured and not refused: fewest broken promises first, then the objective."""
        return self._best(self.candidates)

    def gain(self, trial: Tried) -> float | None:
        """Relative improvement of the objective over the baseline's mean; negative if worse."""
        value, base = self.objective(trial), self.baseline_objective
        if value is None or not base:
            return None
        ratio = value / base
        return 1 - ratio if self.deployment.objective.lower_is_better else ratio - 1

    def violations(self, trial: Tried) -> dict[str, float]:
        """How far each promise is missed, relative to its bound: (value - bound) / bound; zero or less is kept."""
        bounds = self.deployment.slo.bounds()
        return {m: (trial.summary[m] - bound) / bound for m, bound in bounds.items() if m in trial.summary}

    @property
    def worth_confirming(self) -> Tried | None:
        """The best of the candidates that promise more than the least effect and the noise, and break nothing more.

        Chosen among those alone: a candidate that keeps one promise more and gains nothing must not hide a real gain.
        """
        kept = min((len(t.slo_misses) for t in self.baselines), default=0)
        needed = max(self.deployment.objective.min_effect, self.noise or 0.0)
        return self._best(
            t
            for t in self.candidates
            if not t.guardrail_misses and len(t.slo_misses) <= kept and (self.gain(t) or 0.0) >= needed
        )

    def _best(self, trials: Iterable[Tried]) -> Tried | None:
        """Fewest broken promises first, then the objective."""
        measured = [(value, t) for t in trials if (value := self.objective(t)) is not None]
        sign = 1 if self.deployment.objective.lower_is_better else -1

        def rank(pair: tuple[float, Tried]) -> tuple[int, int, float]:
            value, trial = pair
            return len(trial.guardrail_misses), len(trial.slo_misses), sign * value

        best = min(measured, key=rank, default=None)
        return best[1] if best else None


def _tried(
    entry: Entry, judged: Entry | None, deployment: Deployment, baselines: list[dict[str, float]], baseline: Config
) -> Tried:
    data = entry.data
    summary: dict[str, float] = data["summary"]
    verdicts = judged.data["verdicts"] if judged else []
    refusal = next((v["sentence"] for v in verdicts if v["status"] != "PASS"), "")
    proposal = data["proposal"]
    return Tried(
        id=data["id"],
        seq=entry.seq,
        role=data["role"],
        source=proposal["source"],
        patch=proposal["patch"],
        config=Config(data["config"]),
        seed=data["seed"],
        wall_s=data["wall_s"],
        summary=summary,
        failure=data["failure"],
        hypothesis=proposal["hypothesis"],
        refusal=refusal,
        slo_misses=tuple(miss.metric for miss in deployment.slo.misses(summary)),
        guardrail_misses=_guardrail_misses(summary, deployment, baselines) if data["role"] == "search" else (),
        repeats_baseline=data["role"] == "search" and Config(data["config"]) == baseline,
    )


def _guardrail_misses(
    summary: Mapping[str, float], deployment: Deployment, baselines: list[dict[str, float]]
) -> tuple[str, ...]:
    """Guarded metrics that one launch shows as worse than allowed, beyond what launches of the baseline differ by.

    One launch can't tell more than that; the confirmation asks it properly.
    """
    misses = []
    for rail in deployment.guardrails:
        base = [b[rail.metric] for b in baselines if rail.metric in b]
        if not base or rail.metric not in summary:
            continue
        worse = _worse(summary[rail.metric], fmean(base), lower_is_better(rail.metric))
        if worse > rail.max_regression + (noise_of_one(base) or 0.0):
            misses.append(rail.metric)
    return tuple(misses)


def _worse(value: float, base: float, lower: bool) -> float:
    """By which share `value` is worse than `base`; from nothing to something, and the other way, endlessly."""
    over, under = (value, base) if lower else (base, value)
    if under == 0:
        return 0.0 if over == 0 else float("inf")
    return over / under - 1
