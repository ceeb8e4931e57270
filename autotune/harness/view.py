"""What a proposer is shown of a run, from the ledger."""

from __future__ import annotations

from dataclasses import asdict
from statistics import fmean
from typing import cast

from agents.view import HARDWARE_FACTS, HypothesisView, Outcome, RegionView, TrialView, View
from autotune.harness.beliefs import beliefs, may_weigh
from autotune.harness.context import Context
from autotune.harness.estimate import confirm_seconds, trials_affordable
from autotune.harness.history import History, Refused, Tried
from autotune.harness.hypotheses import hypotheses
from autotune.harness.profile import profile
from tools.measure.arrivals import mean_rate_rps
from tools.measure.calibrate import Calibration
from tools.measure.workload import materialise

__all__ = ["view_of"]


def view_of(context: Context) -> View:
    """The run as of now. Holds nothing that could be acted upon: no path, no seed, no threshold of a verifier."""
    deployment, history = context.file.deployment, context.history
    budget = context.effects.budget
    incumbent = history.incumbent
    gain = history.gain(incumbent) if incumbent else None
    return View(
        deployment=deployment.name,
        objective_metric=deployment.objective.metric,
        lower_is_better=deployment.objective.lower_is_better,
        min_effect=deployment.objective.min_effect,
        slo=deployment.slo.bounds(),
        space=context.search_space,
        baseline=context.baseline,
        trials=_in_order(history),
        incumbent=incumbent.id if incumbent and gain is not None and gain > 0 else None,
        noise=history.noise,
        workload=_workload_facts(context),
        hardware=_hardware_facts(context),
        trials_left=trials_affordable(context),
        seconds_left=max(0.0, budget.wall_s - budget.spent(context.ledger).wall_s - confirm_seconds(context)),
        hypotheses=tuple(HypothesisView(**asdict(one)) for one in hypotheses(context.ledger, history)),
        regions=tuple(
            RegionView(belief.knob, belief.low, belief.high, belief.values, belief.weight)
            for belief in beliefs(context.ledger)
        ),
        profile=profile(context),
        may_weigh=may_weigh(context.ledger),
        allowance=budget.allowance(context.ledger),
    )


def _trial(history: History, tried: Tried) -> TrialView:
    failure = tried.failure
    return TrialView(
        id=tried.id,
        patch=dict(tried.patch),  # the ledger's own is not shown: what is shown can be changed
        source=tried.source,
        outcome=cast(Outcome, tried.outcome),
        metrics=dict(tried.summary),
        slo_misses=tried.slo_misses,
        objective=history.objective(tried),
        reason=str(failure["message"]) if failure else tried.refusal,
        log=str(failure["log_tail"]) if failure else "",
    )


def _refused(number: int, refused: Refused) -> TrialView:
    return TrialView(
        id=f"refused-{number}",
        patch=dict(refused.proposal.patch),
        source=refused.proposal.source,
        outcome="refused",
        metrics={},
        slo_misses=(),
        objective=None,
        reason=refused.reason,
    )


def _in_order(history: History) -> tuple[TrialView, ...]:
    made = {t.seq: _trial(history, t) for t in history.tried}
    made |= {r.seq: _refused(number, r) for number, r in enumerate(history.refused, start=1)}
    return tuple(made[seq] for seq in sorted(made))


def _workload_facts(context: Context) -> dict[str, float]:
    spec = context.file.deployment.workload
    workload = materialise(spec, context.search_seed)
    prompts, requests = workload.prompt_words, workload.requests
    outputs = [request.max_tokens for request in requests]
    facts: dict[str, float] = {
        "requests": spec.requests,
        "system_prompt_tokens": spec.system_prompt_tokens,
        "mean_prompt_tokens": fmean(prompts),
        "max_prompt_tokens": max(prompts),
        "mean_output_tokens": fmean(outputs),
        "max_output_tokens": max(outputs),
    }
    rate_rps = mean_rate_rps(spec.arrivals)
    if rate_rps is not None:
        facts["rate_rps"] = rate_rps
    elif spec.arrivals.kind == "closed":
        facts["concurrency"] = spec.arrivals.concurrency
    else:
        facts["concurrency"] = spec.requests
    entry = context.ledger.find("calibrate")
    assert entry is not None
    found = Calibration.from_json(entry.data)
    facts |= {
        "floor_ttft_ms": found.floor_ttft_ms,
        "floor_e2el_ms": found.floor_e2el_ms,
        "ceiling_request_throughput": found.ceiling_request_throughput,
        "ceiling_output_throughput": found.ceiling_output_throughput,
    }
    if found.floor_tpot_ms is not None:
        facts["floor_tpot_ms"] = found.floor_tpot_ms
    return facts


def _hardware_facts(context: Context) -> dict[str, float]:
    entry = context.ledger.find("survey")
    assert entry is not None
    return {name: float(entry.data["facts"][name]) for name in HARDWARE_FACTS if name in entry.data["facts"]}
