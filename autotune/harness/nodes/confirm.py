"""The confirmation: a plan first, then fresh launches in its order, then the gate."""

from __future__ import annotations

from typing import Any, Literal

from langgraph.runtime import Runtime
from langgraph.types import Command

from autotune.harness.context import Context
from autotune.harness.estimate import seconds_left
from autotune.harness.state import State, update
from autotune.harness.trials import Load, carry_out
from tools.proposal import Proposal
from verifiers import Plan, gather, judge

__all__ = ["confirm", "plan", "verdict"]


def plan(state: State, runtime: Runtime[Context]) -> Command[Literal["confirm", "publish"]]:
    """Fix what will be measured, before it is: metric, least effect, level, order, hidden seeds."""
    context = runtime.context
    recorded = context.effects.once("finalist", "finalist", lambda: _finalist(context))
    if recorded["trial"] is None:
        context.progress.note(recorded["why"])
        return Command(goto="publish")
    context.effects.once("plan", "plan", lambda: _plan(context, recorded["trial"]))
    return Command(goto="confirm")


def _finalist(context: Context) -> dict[str, Any]:
    history = context.history
    best = history.worth_confirming
    if best is not None:
        return {"trial": best.id, "why": f"{best.id} promises {history.gain(best) or 0.0:.1%} over the baseline"}
    if history.incumbent is None:
        return {"trial": None, "why": "no candidate was measured; the baseline is kept"}
    closest = history.incumbent
    gain = history.gain(closest)
    why = f"nothing to change: the best candidate, {closest.id}, differs from the baseline by {gain or 0.0:+.1%}"
    if missed := (*closest.slo_misses, *closest.guardrail_misses):
        return {"trial": None, "why": f"{why}, but misses {', '.join(missed)}"}
    needed = max(history.deployment.objective.min_effect, history.noise or 0.0)
    return {"trial": None, "why": f"{why}; it would take {needed:.1%} to be worth a confirmation"}


def _plan(context: Context, trial_id: str) -> dict[str, Any]:
    best = next(t for t in context.history.tried if t.id == trial_id)
    drawn = Plan.draw(context.run.id, context.file.deployment, context.baseline.digest, best.config.digest)
    return {
        "plan": drawn.to_json(),
        "plan_digest": drawn.digest,
        "patch": dict(best.patch),
        "proposal": Proposal(best.patch, best.hypothesis, best.source).to_json(),
        "memory_need_bytes": context.target.memory(best.config).total_bytes,
    }


def confirm(state: State, runtime: Runtime[Context]) -> Command[Literal["confirm", "verdict"]]:
    """One planned launch."""
    context = runtime.context
    entry = context.ledger.find("plan")
    assert entry is not None
    planned = Plan.from_json(entry.data["plan"])
    slot = planned.slots[state.slot]
    proposal = Proposal.from_json(entry.data["proposal"])
    config = context.baseline if slot.arm == "A" else context.baseline.patched(proposal.patch)
    number, total = state.slot + 1, len(planned.slots)
    arm = "baseline" if slot.arm == "A" else "candidate"
    context.progress.phase("confirm", f"launch {number} of {total}: {arm}", seconds_left(context))
    load = Load(slot.seed, slot.load_factor, slot.block, with_evals=slot.block == 0)
    carry_out(context, f"c{number}", "confirm", slot.arm, proposal, config, load)
    return Command(goto="confirm" if number < total else "verdict", update=update(slot=number))


def verdict(state: State, runtime: Runtime[Context]) -> Command[Literal["publish"]]:
    """The gate over the whole confirmation."""
    context = runtime.context
    context.progress.phase("verdict", "the verifiers decide", 0.0)
    context.effects.once("verdict", "verdict", lambda: judge_confirmation(context))
    return Command(goto="publish")


def judge_confirmation(context: Context) -> dict[str, Any]:
    return judge("confirm", gather(context.ledger)).to_json()
