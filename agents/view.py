"""View: all that a proposer may see of a run. Data only, and nothing in it can be acted upon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tools.canonical import digest
from tools.proposal import Source
from tools.targets.knobs import Config, KnobSpace, Value
from tools.targets.target import FailureKind

__all__ = ["HARDWARE_FACTS", "WORKLOAD_FACTS", "Outcome", "TrialView", "View"]

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

_PROMPT_TRIALS = 24
_PROMPT_LINE_CHARS = 240
_PROMPT_METRICS = frozenset(
    {"p95_ttft_ms", "p95_itl_ms", "p95_tpot_ms", "mean_e2el_ms", "request_throughput", "output_throughput", "failed"}
    | {"prefix_hit_rate"}
)


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

    def to_prompt_data(self) -> dict[str, Any]:
        """What an LLM is shown, as compact JSON data: the latest trials and the metrics that matter, in four digits."""
        shown = self.trials[-_PROMPT_TRIALS:]
        if (baseline := self.baseline_trial) is not None and baseline not in shown:
            shown = (baseline, *shown)
        return {
            "deployment": self.deployment,
            "objective": {
                "metric": self.objective_metric,
                "better": "lower" if self.lower_is_better else "higher",
                "least_relative_gain": _short(self.least_gain),
            },
            "slo_upper_bounds": dict(self.slo),
            "workload": {name: _short(value) for name, value in self.workload.items()},
            "hardware": {name: _short(value) for name, value in self.hardware.items()},
            "baseline_config": dict(self.baseline.values),
            "best_trial": self.best.id if self.best is not None else None,
            "trials": [self._trial_data(trial) for trial in shown],
            "refuted_earlier": [_line(note) for note in self.notes[-_PROMPT_TRIALS:]],
            "trials_left": self.trials_left,
            "seconds_left": round(self.seconds_left),
        }

    def _trial_data(self, trial: TrialView) -> dict[str, Any]:
        wanted = {self.objective_metric, *self.slo, *_PROMPT_METRICS}
        data = {
            "id": trial.id,
            "patch": dict(trial.patch),
            "source": trial.source,
            "outcome": trial.outcome,
            "metrics": {name: _short(value) for name, value in trial.metrics.items() if name in wanted},
            "slo_misses": list(trial.slo_misses),
            "reason": _line(trial.reason),
        }
        return {name: value for name, value in data.items() if value not in ("", [], {}) or name == "patch"}


def _short(value: float) -> float:
    """Four significant digits: more would be noise, and cost tokens."""
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded.is_integer() else rounded


def _line(text: str) -> str:
    """Untrusted text as one printable line of bounded length."""
    return "".join(char if char.isprintable() else " " for char in text)[:_PROMPT_LINE_CHARS]
