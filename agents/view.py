"""View: all that a proposer may see of a run. Data only, and nothing in it can be acted upon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from agents.usage import Allowance
from tools.canonical import digest
from tools.proposal import Source
from tools.targets.knobs import Config, KnobSpace, Value
from tools.targets.target import FailureKind

__all__ = [
    "HARDWARE_FACTS",
    "WORKLOAD_FACTS",
    "HypothesisStatus",
    "HypothesisView",
    "Outcome",
    "ProfileSubject",
    "RegionView",
    "TrialView",
    "View",
]

Outcome = Literal["ok", "refused"] | FailureKind
"""`ok`, `refused` (a preflight verifier said no; nothing was launched), or the kind of the failure."""

WORKLOAD_FACTS: Mapping[str, str] = {
    "requests": "requests in one trial",
    "rate_rps": "mean arrivals per second; absent where the clients set the pace",
    "concurrency": "requests in flight at once, where the workload fixes it (closed loop, burst)",
    "system_prompt_tokens": "tokens of the prefix that all prompts share",
    "mean_prompt_tokens": "mean prompt length, shared prefix included",
    "max_prompt_tokens": "longest prompt, shared prefix included",
    "mean_output_tokens": "mean output length",
    "max_output_tokens": "longest output",
    "floor_ttft_ms": "time to first token of a request alone on the baseline",
    "floor_tpot_ms": "time per output token of a request alone on the baseline",
    "floor_e2el_ms": "end-to-end latency of a request alone on the baseline",
    "ceiling_request_throughput": "requests per second when all are sent at once to the baseline",
    "ceiling_output_throughput": "output tokens per second when all are sent at once to the baseline",
}
"""Names a playbook may use as `workload.<name>`. A fact that isn't known is absent, never zero."""

HARDWARE_FACTS: Mapping[str, str] = {
    "cores": "CPU cores this process may use",
    "memory_bytes": "memory this process may use",
    "gpus": "GPUs",
    "gpu_memory_bytes": "memory of one GPU",
}
"""Names a playbook may use as `hardware.<name>`."""

ProfileSubject = Literal["machine", "roofline", "calibration", "time"]
"""What a proposer may ask the run's records about: the machine, what no config can get out of it, the baseline's
requests alone and all at once, and where the time of the baseline and of the best trial goes."""

HypothesisStatus = Literal["confirmed", "refuted", "undecided"]


@dataclass(frozen=True, slots=True)
class HypothesisView:
    """What was expected of one trial, and what came of it."""

    trial: str
    source: Source
    text: str
    "Untrusted: a proposer's own words."
    expect: Mapping[str, str]
    "Metric -> lower | higher."
    status: HypothesisStatus
    found: str
    "The figures that decided it, or why nothing did."


@dataclass(frozen=True, slots=True)
class RegionView:
    """Where an earlier turn told the search to look."""

    knob: str
    low: float | None
    high: float | None
    values: tuple[Value, ...]
    weight: float


@dataclass(frozen=True, slots=True)
class TrialView:
    """One trial as a proposer sees it."""

    id: str
    patch: Mapping[str, Value]
    "Against the baseline; empty for the baseline itself."
    source: Source
    outcome: Outcome
    metrics: Mapping[str, float]
    slo_misses: tuple[str, ...]
    "Metrics whose promise was not kept."
    objective: float | None
    "The objective metric; None where nothing was measured."
    reason: str
    "One line on a failure or refusal. Untrusted: it can hold a log's text."
    log: str = ""
    "The end of the log of a trial that failed. Untrusted."

    @property
    def measured(self) -> bool:
        return self.outcome == "ok" and self.objective is not None


@dataclass(frozen=True)
class View:
    """What has been tried and what is left, as of one decision."""

    deployment: str
    objective_metric: str
    lower_is_better: bool
    min_effect: float
    "Least relative improvement worth a commit."
    slo: Mapping[str, float]
    "Bound per metric; a value above it is a miss."
    space: KnobSpace
    "The knobs that may be changed in this deployment."
    baseline: Config
    trials: tuple[TrialView, ...]
    "In the order they were made, the baseline's own and refused proposals among them."
    incumbent: str | None
    "Id of the best trial so far; None while that is the baseline."
    noise: float | None
    "Relative A/A spread of the objective on the baseline; None while unknown."
    workload: Mapping[str, float]
    hardware: Mapping[str, float]
    trials_left: int
    seconds_left: float
    "For exploring: what the confirmation needs is already set aside."
    notes: tuple[str, ...] = ()
    "What was refuted in earlier runs."
    hypotheses: tuple[HypothesisView, ...] = ()
    "Of this run, in order; all that were put to a trial."
    regions: tuple[RegionView, ...] = ()
    "Where the search was told to look, as it stands."
    profile: Mapping[ProfileSubject, Mapping[str, float | str]] = field(default_factory=dict)
    "What the run has recorded, by subject."
    may_weigh: bool = True
    "False right after a turn that weighed: first a trial, then another belief."
    allowance: Allowance | None = None
    "What is left for a model's answers; None: not limited."

    def trial(self, trial_id: str) -> TrialView | None:
        return next((trial for trial in self.trials if trial.id == trial_id), None)

    @cached_property
    def baseline_trial(self) -> TrialView | None:
        """The first measured trial of the unchanged baseline, or the first failed one where none was measured."""
        unchanged = [trial for trial in self.trials if not self.changes(trial.patch)]
        return next((trial for trial in unchanged if trial.measured), unchanged[0] if unchanged else None)

    @cached_property
    def best(self) -> TrialView | None:
        """The incumbent's trial, else the baseline's."""
        incumbent = self.trial(self.incumbent) if self.incumbent is not None else None
        return incumbent or self.baseline_trial

    def changes(self, patch: Mapping[str, Value]) -> dict[str, Value]:
        """`patch` without what the baseline says already."""
        standing = self.baseline.values
        return {name: value for name, value in sorted(patch.items()) if name not in standing or standing[name] != value}

    @cached_property
    def tried(self) -> Mapping[str, str]:
        """Digest of what a trial changes -> id of the first trial that changed it."""
        found: dict[str, str] = {}
        for trial in self.trials:
            found.setdefault(digest(self.changes(trial.patch)), trial.id)
        return found

    def tried_as(self, patch: Mapping[str, Value]) -> str | None:
        """Id of the trial that has tried what `patch` changes."""
        return self.tried.get(digest(self.changes(patch)))

    @property
    def least_gain(self) -> float:
        """Relative gain below which two trials count as equal: the noise, or the minimum effect while it is unknown."""
        return self.min_effect if self.noise is None else self.noise

    def shortfall(self, trial: TrialView) -> float:
        """How far the promises are missed: the sum over bounds of max(0, value / bound - 1). 0 = all kept.

        A bound whose metric wasn't measured counts 1.
        """
        values = ((trial.metrics.get(name), bound) for name, bound in self.slo.items())
        return sum(1.0 if value is None else max(0.0, value / bound - 1) for value, bound in values)

    def gain(self, trial: TrialView, over: TrialView) -> float:
        """Relative improvement of the objective: 0.2 = 20 % better. 0 where either wasn't measured."""
        if trial.objective is None or not over.objective:
            return 0.0
        change = trial.objective / over.objective - 1
        return -change if self.lower_is_better else change

    def improves(self, trial: TrialView, over: TrialView | None) -> bool:
        """Whether `trial` is better by more than the noise: promises first, then the objective."""
        if not trial.measured:
            return False
        if over is None or not over.measured:
            return True
        before, after = self.shortfall(over), self.shortfall(trial)
        if before or after:
            return after < before * (1 - self.least_gain)
        return self.gain(trial, over) > self.least_gain
