"""What is known of a table before its first trial: a proposer's view, the playbook's priors, the crash oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean

from agents.advice import advised_priors
from agents.playbook import Playbook, load_playbook
from agents.suggest import suggest_playbook
from agents.view import TrialView, View
from autotune.report_card.replay import ReplayTarget
from autotune.report_card.surface_file import load_surface
from benchmarks.surfaces.scenario import scenario
from benchmarks.surfaces.table import Table
from tools.measure.arrivals import mean_rate_rps
from tools.measure.summary import METRICS
from tools.measure.workload import WorkloadSpec, materialise
from tools.oracle import CrashOracle
from tools.search import Observation, Prior
from tools.targets.knobs import Config
from tools.targets.target import MemoryNeed

__all__ = ["is_bundled", "oracle_of", "priors_of", "view_of"]

SCORE = "score"
"What a scenario with several figures is judged by; higher is better."

GENERAL = "interactive-latency"
"The playbook of a scenario that no single metric judges."

_SEED = 100
"Of the workload whose mean lengths are told; the recorded launches had it too."

_SECONDS_LEFT = 600.0


def is_bundled(table: Table) -> bool:
    """Whether the table is of our own engine, whose memory formula is known without launching it."""
    return table.engine.startswith("bundled")


def priors_of(table: Table, history: Sequence[Observation]) -> tuple[Prior, ...]:
    """What the playbook that is shipped for such an objective and workload believes after the trials of `history`."""
    view = view_of(table, history)
    name = suggest_playbook(view.objective_metric, view.workload) if view.objective_metric in METRICS else GENERAL
    return tuple(
        Prior(advised.patch, advised.weight, "playbook", advised.why)
        for advised in advised_priors(_playbook(name), view)
        if advised.weight > 0
    )


@cache
def _playbook(name: str) -> Playbook:
    return load_playbook(name)


def oracle_of(table: Table) -> CrashOracle | None:
    """The crash oracle with the bundled engine's memory formula; None for an engine that has none."""
    if not is_bundled(table):
        return None
    baseline = table.knobs.resolve(dict(table.default))
    return CrashOracle.of(_Sized(_target(), table), table.knobs, baseline, int(table.hardware["memory_bytes"]))


@cache
def _target() -> ReplayTarget:
    """The bundled engine with the model that the tables were recorded with, its weights left out."""
    return ReplayTarget(load_surface("chat").model)


@dataclass(frozen=True)
class _Sized:
    """The memory formula, asked about the cell of a table that a config would be; other knobs stand at defaults."""

    target: ReplayTarget
    table: Table

    def memory(self, config: Config) -> MemoryNeed:
        return self.target.memory(self.target.knobs.resolve(self.table.space.snap(config.values)))


def view_of(table: Table, history: Sequence[Observation], trials_left: int = 15) -> View:
    """What a proposer would be shown on `table`: the default, and the trials of `history` (the default's among them).

    A trial shows the objective that was measured, and the config's mean metrics beside it.
    """
    metric = _objective(table)
    lower = metric.endswith("_ms")
    shown = [_trial("b1", table, Observation({}, table.truth({}), True), metric)]
    shown += [_trial(f"t{number}", table, seen, metric) for number, seen in enumerate(history) if seen.patch]
    best = max(
        (trial for trial in shown if trial.objective is not None),
        key=lambda trial: (-1 if lower else 1) * (trial.objective or 0.0),
    )
    return View(
        deployment=table.name,
        objective_metric=metric,
        lower_is_better=lower,
        min_effect=0.05,
        slo={},
        space=table.knobs,
        baseline=_baseline(table),
        trials=tuple(shown),
        incumbent=None if best.id == "b1" else best.id,
        noise=table.noise,
        workload=_workload(table),
        hardware=_hardware(table),
        trials_left=trials_left,
        seconds_left=_SECONDS_LEFT,
    )


def _baseline(table: Table) -> Config:
    """The whole config of the default, knobs that the table doesn't vary among it where they are known."""
    return (_target().knobs if is_bundled(table) else table.knobs).resolve(dict(table.default))


def _objective(table: Table) -> str:
    figures = scenario(table.scenario).figures
    return figures[0] if len(figures) == 1 else SCORE


def _trial(name: str, table: Table, seen: Observation, metric: str) -> TrialView:
    row = table.row({**table.default, **seen.patch})
    launches = [launch.metrics for launch in row.launches]
    known = set.intersection(*(set(metrics) for metrics in launches)) if launches else set()
    metrics = {each: fmean(found[each] for found in launches) for each in sorted(known)}
    objective = seen.objective
    if objective is not None and metric != SCORE:
        objective = 1000 / objective if metric.endswith("_ms") else objective
        metrics[metric] = objective
    reason = row.failure[1] if row.failure else "" if seen.feasible else f"quality {row.quality:.3f} of the default's"
    shown = TrialView(name, dict(seen.patch), "llm", "ok", metrics, (), objective, reason)
    return shown if seen.feasible else replace(shown, outcome="crash", metrics={}, objective=None)


def _workload(table: Table) -> Mapping[str, float]:
    """Facts of the load that keeps most requests in flight, where the scenario has several."""
    specs = [WorkloadSpec.model_validate(raw) for raw in table.workload.values()]
    spec = max(specs, key=lambda spec: spec.requests if spec.arrivals.kind == "burst" else 0)
    workload = materialise(spec, _SEED)
    outputs = [request.max_tokens for request in workload.requests]
    facts: dict[str, float] = {
        "requests": spec.requests,
        "system_prompt_tokens": spec.system_prompt_tokens,
        "mean_prompt_tokens": fmean(workload.prompt_words),
        "max_prompt_tokens": max(workload.prompt_words),
        "mean_output_tokens": fmean(outputs),
        "max_output_tokens": max(outputs),
    }
    if (rate_rps := mean_rate_rps(spec.arrivals)) is not None:
        facts["rate_rps"] = rate_rps
    else:
        facts["concurrency"] = spec.arrivals.concurrency if spec.arrivals.kind == "closed" else spec.requests
    return facts


def _hardware(table: Table) -> Mapping[str, float]:
    found = table.hardware
    return {
        "cores": float(found.get("used_cores", found["cores"])),
        "memory_bytes": float(found["memory_bytes"]),
        "gpus": float(len(found.get("gpus", ()))),
    }
