"""Facts: what a report may say about a run, derived from its ledger and raw records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from autotune.harness.budget import Budget
from autotune.harness.history import History, Refused, Tried
from autotune.harness.hypotheses import HitRate, Judged, hit_rates, hypotheses
from autotune.harness.rundir import RunDir
from tools.ledger import Ledger, LedgerView
from tools.measure.summary import lower_is_better
from tools.targets.knobs import Value
from verifiers import Evidence, Verdict, gather
from verifiers.claims import cells_of, shown
from verifiers.looking import blocks_of
from verifiers.statistics.blocked import blocked_interval, blocked_ratio

__all__ = ["Change", "Comparison", "Dot", "Facts", "read_facts"]

COMPARED = (
    "median_ttft_ms",
    "p95_ttft_ms",
    "median_tpot_ms",
    "p95_itl_ms",
    "p95_e2el_ms",
    "output_throughput",
    "request_goodput",
    "slo_attainment",
)
"""Metrics of the comparison, beside the objective and the guardrails."""


@dataclass(frozen=True, slots=True)
class Change:
    knob: str
    old: Value | None
    new: Value | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Baseline against tuned: medians at the deployment's own load, the Hodges-Lehmann ratio within blocks of the
    confirmation and its exact interval, which the truth lies beyond at either end with a chance of 5 %."""

    metric: str
    baseline: float
    tuned: float
    ratio: float
    low: float | None
    "None where there are too few blocks for an interval."
    high: float | None
    better: str
    "lower | higher"


@dataclass(frozen=True, slots=True)
class Dot:
    """One measured trial in the trade-off picture."""

    id: str
    kind: str
    "baseline | tried | incumbent | confirm-A | confirm-B"
    throughput: float
    "Output tokens per second."
    latency: float
    "The objective, in its own unit."
    label: str


@dataclass(frozen=True)
class Facts:
    """All that the report's templates get."""

    run: str
    deployment: str
    model: str
    finished: bool
    decision: str
    exit_code: int | None
    sentence: str
    objective: str
    min_effect: float
    slo: Mapping[str, float]
    changes: tuple[Change, ...]
    comparisons: tuple[Comparison, ...]
    verdicts: tuple[Verdict, ...]
    score: float
    trials: tuple[Tried, ...]
    refused: tuple[Refused, ...]
    dots: tuple[Dot, ...]
    path: tuple[str, ...]
    "Ids of the trials that became the incumbent, in order."
    gains: Mapping[str, float]
    "Relative gain over the baseline's mean, by trial."
    calibration: Mapping[str, Any]
    machine: Mapping[str, Any]
    plan: Mapping[str, Any] | None
    commit: Mapping[str, Any] | None
    launches: int
    wall_s: float
    llm_tokens: int
    llm: Mapping[str, Any]
    "Tokens by kind, questions, requests and US dollars (None: no price was given), as `agents.usage` names them."
    noise: float | None
    head: str
    hypotheses: Mapping[str, str]
    judged: tuple[Judged, ...]
    "What each proposal was expected to do, and what it did."
    hit_rates: Mapping[str, HitRate]
    "By source of the proposal."

    def to_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain["slo"], plain["gains"], plain["hypotheses"] = dict(self.slo), dict(self.gains), dict(self.hypotheses)
        plain["changes"] = [asdict(change) for change in self.changes]
        plain["comparisons"] = [asdict(row) for row in self.comparisons]
        plain["dots"] = [asdict(dot) for dot in self.dots]
        plain["trials"] = [_trial_json(trial) for trial in self.trials]
        plain["verdicts"] = [verdict.to_json() for verdict in self.verdicts]
        plain["judged"] = [asdict(one) for one in self.judged]
        plain["hit_rates"] = {source: {**asdict(hits), "rate": hits.rate} for source, hits in self.hit_rates.items()}
        plain["refused"] = [{**r.proposal.to_json(), "reason": r.reason} for r in self.refused]
        return plain


def _trial_json(trial: Tried) -> dict[str, Any]:
    return {
        "id": trial.id,
        "role": trial.role,
        "patch": dict(trial.patch),
        "outcome": trial.outcome,
        "hypothesis": trial.hypothesis,
        "refusal": trial.refusal,
        "failure": dict(trial.failure) if trial.failure else None,
        "slo_misses": list(trial.slo_misses),
        "summary": dict(trial.summary),
    }


def read_facts(run: RunDir) -> Facts:
    """The facts of the run as far as it has come."""
    ledger = Ledger.read(run.ledger)
    evidence = gather(ledger)
    history = History.read(ledger, evidence.baseline)
    started, survey = _data(ledger, "run.started"), _data(ledger, "survey")
    keys = ("finished", "verdict", "publication", "plan", "commit")
    finished, verdict, publication, plan, commit = (_find(ledger, key) for key in keys)
    patch = plan["patch"] if plan else {}
    changed = evidence.baseline.diff(evidence.baseline.patched(patch))
    path = _incumbent_path(history)
    llm, judged = Budget().spent(ledger).llm, _judged(ledger, history, evidence)
    return Facts(
        run=run.id,
        deployment=evidence.deployment.name,
        model=evidence.deployment.model,
        finished=finished is not None,
        decision=finished["decision"] if finished else "unfinished",
        exit_code=finished["exit_code"] if finished else None,
        sentence=finished["sentence"] if finished else f"not finished; go on with: autotune resume {run.path}",
        objective=evidence.deployment.objective.metric,
        min_effect=evidence.deployment.objective.min_effect,
        slo=evidence.deployment.slo.bounds(),
        changes=tuple(Change(name, old, new) for name, (old, new) in changed.items()),
        comparisons=_comparisons(evidence) if evidence.confirmation else (),
        verdicts=tuple(Verdict.from_json(v) for said in (verdict, publication) if said for v in said["verdicts"]),
        score=verdict["score"] if verdict else 0.0,
        trials=_as_shown(history.tried, evidence),
        refused=history.refused,
        dots=_dots(evidence, history, path),
        path=path,
        gains={t.id: g for t in history.tried if (g := history.gain(t)) is not None},
        calibration=_find(ledger, "calibrate") or {},
        machine=survey,
        plan=_planned(plan["plan"], evidence) if plan else None,
        commit=commit,
        launches=len(ledger.of_kind("trial.started")) + len(ledger.of_kind("calibration")),
        wall_s=_wall(ledger),
        llm_tokens=llm.total_tokens,
        llm=llm.to_json(),
        noise=history.noise,
        head=ledger.head,
        hypotheses={"playbook": started["playbook"]["name"], "proposer": started["options"]["proposer"]},
        judged=judged,
        hit_rates=hit_rates(judged),
    )


def _judged(ledger: LedgerView, history: History, evidence: Evidence) -> tuple[Judged, ...]:
    """The hypotheses without what was said about figures that nothing bears out."""
    cells, objective = cells_of(evidence), evidence.deployment.objective.metric
    return tuple(replace(one, text=shown(one.text, cells, objective)) for one in hypotheses(ledger, history))


def _planned(plan: Mapping[str, Any], evidence: Evidence) -> dict[str, Any]:
    """The plan with the launches that it came to, which may be fewer than it allows."""
    return {**plan, "slots": [{"arm": trial.arm, "seed": trial.seed} for trial in evidence.confirmation]}


def _as_shown(trials: tuple[Tried, ...], evidence: Evidence) -> tuple[Tried, ...]:
    """The trials without what a proposer said about figures that nothing bears out."""
    cells, objective = cells_of(evidence), evidence.deployment.objective.metric
    return tuple(replace(tried, hypothesis=shown(tried.hypothesis, cells, objective)) for tried in trials)


def _find(ledger: LedgerView, key: str) -> dict[str, Any] | None:
    entry = ledger.find(key)
    return dict(entry.data) if entry else None


def _data(ledger: LedgerView, key: str) -> dict[str, Any]:
    found = _find(ledger, key)
    if found is None:
        raise ValueError(f"the ledger has no entry {key}")
    return found


def _wall(ledger: LedgerView) -> float:
    entries = list(ledger)
    return entries[-1].time - entries[0].time


def _comparisons(evidence: Evidence) -> tuple[Comparison, ...]:
    deployment = evidence.deployment
    names = dict.fromkeys(
        (deployment.objective.metric, *deployment.slo.bounds(), *(g.metric for g in deployment.guardrails), *COMPARED)
    )
    rows = []
    for metric in names:
        blocks = blocks_of(evidence.confirmation, metric)
        if not blocks:
            continue
        low, high = blocked_interval(blocks)
        sure = low > 0
        typical = {arm: [t.summary[metric] for t in evidence.arm(arm) if t.load_factor == 1.0] for arm in ("A", "B")}
        rows.append(
            Comparison(
                metric=metric,
                baseline=median(typical["A"]),
                tuned=median(typical["B"]),
                ratio=blocked_ratio(blocks),
                low=low if sure else None,
                high=high if sure else None,
                better="lower" if lower_is_better(metric) else "higher",
            )
        )
    return tuple(rows)


def _incumbent_path(history: History) -> tuple[str, ...]:
    path: list[str] = []
    for count in range(1, len(history.tried) + 1):
        so_far = History(history.tried[:count], (), history.deployment, 0.0)
        best = so_far.incumbent
        if best is not None and (so_far.gain(best) or 0.0) > 0 and (not path or path[-1] != best.id):
            path.append(best.id)
    return tuple(path)


def _dots(evidence: Evidence, history: History, path: tuple[str, ...]) -> tuple[Dot, ...]:
    metric = evidence.deployment.objective.metric
    patches = {t.id: ", ".join(f"{k}={v}" for k, v in t.patch.items()) or "baseline" for t in history.tried}
    dots = []
    for trial in (*evidence.search, *evidence.confirmation):
        throughput, latency = trial.summary.get("output_throughput"), trial.summary.get(metric)
        if throughput is None or latency is None:
            continue
        if trial.role == "confirm":
            kind, label = f"confirm-{trial.arm}", "confirmation: " + ("baseline" if trial.arm == "A" else "candidate")
        else:
            kind = "baseline" if trial.role == "baseline" else "incumbent" if trial.id in path else "tried"
            label = patches.get(trial.id, "")
        dots.append(Dot(trial.id, kind, throughput, latency, label))
    return tuple(dots)
