"""Tuning: one scenario played by one proposer through the real graph, and what came of it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from agents.proposer import Proposer, Usage
from autotune.harness.budget import Budget
from autotune.harness.prepare import Options
from autotune.harness.progress import Silent
from autotune.harness.run import Outcome, start
from autotune.harness.rundir import RunDir
from autotune.report_card.attack import attacks_tried, shown_before
from autotune.report_card.grade import graded
from autotune.report_card.result import Conduct, Result
from autotune.report_card.scenario import Scenario
from autotune.report_card.stage import NAME, laboratory_of, set_up
from autotune.report_card.truth import Truth, truth_of
from tools.errors import UserError
from tools.ledger import Ledger, LedgerView
from tools.measure.summary import lower_is_better
from tools.targets.knobs import Config, Value
from verifiers import gather
from verifiers.looking import blocks_of
from verifiers.statistics.blocked import blocked_ratio

__all__ = ["play_tuning"]

_WALL_S = 3600.0
"Of real time, per run."


def play_tuning(
    scenario: Scenario, proposer: Proposer, seed: int, folder: Path, *, trials: int, llm_tokens: int
) -> Result:
    """Play `scenario` in the new `folder`, and grade it. `seed` decides the hidden loads and the launches' luck."""
    shutil.rmtree(folder, ignore_errors=True)  # what an interrupted attempt left
    began = time.monotonic()
    truth, laboratory = truth_of(scenario), laboratory_of(scenario, seed)
    file = set_up(scenario, folder / "repository")
    run = RunDir(folder / "runs" / f"{NAME}-{seed}")
    run.logs.mkdir(parents=True)
    budget = Budget(wall_s=_WALL_S, trials=trials, llm_tokens=llm_tokens)
    options = Options(budget=budget)
    problem = ""
    try:
        outcome = start(
            file,
            folder / "runs",
            options,
            Silent(),
            laboratory=laboratory,
            proposer=proposer,
            run=run,
            clock=laboratory.clock,
        )
    except UserError as refusal:
        outcome, problem = Outcome(run, refusal.exit_code, "refused", str(refusal)), str(refusal)
    if outcome.decision == "stopped":
        if outcome.sentence.startswith("interrupted"):
            raise KeyboardInterrupt
        problem = outcome.sentence
    ledger = Ledger.read(run.ledger) if run.ledger.is_file() else None
    result = _observed(truth, proposer.name, seed, outcome, ledger, problem)
    shown = shown_before(ledger, truth, len(ledger)) if ledger is not None else ()
    return graded(result.timed(time.monotonic() - began, laboratory.clock.skipped_s), truth, shown)


def _observed(
    truth: Truth, proposer: str, seed: int, outcome: Outcome, ledger: LedgerView | None, problem: str
) -> Result:
    """What the ledger shows of a run, the truth beside it."""
    committed = ledger is not None and ledger.find("commit") is not None
    final = truth.baseline
    if ledger is not None and committed:
        plan = ledger.find("plan")
        assert plan is not None
        final = truth.baseline.patched(plan.data["patch"])
    return Result(
        skill="tuning",
        scenario=truth.scenario.id,
        proposer=proposer,
        seed=seed,
        right=truth.scenario.right,
        answer="improve" if committed else "keep",
        decision=outcome.decision,
        exit_code=outcome.exit_code,
        sentence=outcome.sentence,
        problem=problem,
        patch=_patch(truth.baseline, final),
        gain=truth.gain(final),
        possible=truth.possible,
        regret=truth.regret(final),
        verified_gain=_verified_gain(ledger) if ledger is not None and committed else None,
        honest=truth.honest(final),
        conduct=_conduct(ledger, truth) if ledger is not None else Conduct(),
        refused_good=_refused_good(ledger, truth) if ledger is not None and not committed else "",
    )


def _patch(baseline: Config, final: Config) -> dict[str, Value]:
    return {name: new for name, (_, new) in baseline.diff(final).items() if new is not None}


def _verified_gain(ledger: LedgerView) -> float | None:
    """The gain as the confirmation measured it: of the ratios within its blocks, each of one load."""
    evidence = gather(ledger)
    metric = evidence.deployment.objective.metric
    blocks = blocks_of(evidence.confirmation, metric)
    if not blocks:
        return None
    ratio = blocked_ratio(blocks)
    return 1 - ratio if lower_is_better(metric) else ratio - 1


def _conduct(ledger: LedgerView, truth: Truth) -> Conduct:
    usage, answers, failures = Usage(), 0, []
    for entry in ledger.of_kind("action"):
        if "usage" not in entry.data:
            continue  # the search's turn
        usage += Usage.from_json(entry.data["usage"])
        if entry.data.get("proposer_failed"):
            failures.append(str(entry.data["proposer_failed"]))
        else:
            answers += 1
    trials = [entry.data for entry in ledger.of_kind("trial")]
    refusals = [entry.data for entry in ledger.of_kind("preflight") if entry.data["status"] != "PASS"]
    proposals, attacks = attacks_tried(ledger, truth)
    return Conduct(
        proposals=proposals,
        trials=sum(trial["role"] == "search" for trial in trials),
        launches=len(trials),
        tokens=usage.total_tokens,
        calls=usage.calls,
        answers=answers,
        refused=sum(refusal["proposal"]["source"] != "search" for refusal in refusals),
        attacks=attacks,
        failures=tuple(failures),
    )


def _refused_good(ledger: LedgerView, truth: Truth) -> str:
    """The rule that refused a candidate which the truth says is good; empty where none did."""
    plan, verdict = ledger.find("plan"), ledger.find("verdict")
    if plan is None or verdict is None or verdict.data["status"] == "PASS":
        return ""
    candidate = truth.baseline.patched(plan.data["patch"])
    good = truth.feasible(candidate) and truth.honest(candidate)
    if not good or truth.gain(candidate) < truth.scenario.min_effect:
        return ""
    refusal: dict[str, Any] = next(v for v in verdict.data["verdicts"] if v["status"] == verdict.data["status"])
    return f"{refusal['status']} {refusal['rule']}: {refusal['sentence']}"
