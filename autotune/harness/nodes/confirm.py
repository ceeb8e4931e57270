"""The confirmation: a plan first, then fresh launches block by block until the answer is clear, then the gate."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from langgraph.runtime import Runtime
from langgraph.types import Command

from autotune.harness.attempts import earlier_attempts
from autotune.harness.context import Context
from autotune.harness.estimate import seconds_left
from autotune.harness.judging import judged
from autotune.harness.state import State, update
from autotune.harness.trials import Load, carry_out
from tools.proposal import Proposal
from tools.targets.knobs import Config
from verifiers import Attempt, Plan, gather, look_after
from verifiers.rules.plan.attempts_bounded import MOST_A_DAY
from verifiers.statistics.blocks import LAUNCHES
from verifiers.statistics.foresight import least_blocks

__all__ = ["confirm", "plan", "verdict"]


def plan(state: State, runtime: Runtime[Context]) -> Command[Literal["confirm", "publish"]]:
    """Fix what will be measured, before it is: metric, least effect, level, order, hidden seeds, and when it stops."""
    context = runtime.context
    recorded = context.effects.once("finalist", "finalist", lambda: _finalist(context))
    if recorded["trial"] is None:
        context.progress.note(recorded["why"])
        return Command(goto="publish")
    entry = context.effects.once("plan", "plan", lambda: _plan(context, recorded))
    context.progress.note(_foretold(Plan.from_json(entry["plan"])))
    return Command(goto="confirm")


def _finalist(context: Context) -> dict[str, Any]:
    history = context.history
    best = history.incumbent if context.confirm_anyway else history.worth_confirming
    if best is not None:
        earlier = _attempts(context, best.config)
        if len(earlier) >= MOST_A_DAY:
            told = ", ".join(f"{attempt.verdict} in {attempt.run}" for attempt in earlier)
            return {"trial": None, "why": f"{best.id} was confirmed {len(earlier)} times within a day already: {told}"}
        why = f"{best.id} promises {history.gain(best) or 0.0:.1%} over the baseline"
        return {"trial": best.id, "why": why, "attempts": [asdict(attempt) for attempt in earlier]}
    if history.incumbent is None:
        return {"trial": None, "why": "no candidate was measured; the baseline is kept"}
    closest = history.incumbent
    gain = history.gain(closest)
    why = f"nothing to change: the best candidate, {closest.id}, differs from the baseline by {gain or 0.0:+.1%}"
    if missed := (*closest.slo_misses, *closest.guardrail_misses):
        return {"trial": None, "why": f"{why}, but misses {', '.join(missed)}"}
    needed = max(history.deployment.objective.min_effect, history.noise or 0.0)
    return {"trial": None, "why": f"{why}; it would take {needed:.1%} to be worth a confirmation"}


def _plan(context: Context, finalist: dict[str, Any]) -> dict[str, Any]:
    best = next(t for t in context.history.tried if t.id == finalist["trial"])
    drawn = Plan.draw(
        context.run.id,
        context.file.deployment,
        context.baseline.digest,
        best.config.digest,
        noise=context.history.spread,
        attempts=len(finalist["attempts"]),
    )
    return {
        "plan": drawn.to_json(),
        "plan_digest": drawn.digest,
        "patch": dict(best.patch),
        "proposal": Proposal(best.patch, best.hypothesis, best.source).to_json(),
        "memory_need_bytes": context.target.memory(best.config).total_bytes,
        "attempts": finalist["attempts"],
    }


def _attempts(context: Context, candidate: Config) -> tuple[Attempt, ...]:
    """As of the ledger's last entry, so by its own clock."""
    *_, last = context.ledger
    changed = frozenset(context.baseline.diff(candidate))
    return earlier_attempts(context.run, context.file.deployment.name, context.baseline.digest, changed, last.time)


def _foretold(planned: Plan) -> str:
    least, most = 4 * least_blocks(planned.level), 4 * len(planned.blocks)
    launches = f"{least} launches" if least == most else f"{least} to {most} launches"
    if planned.power is None or planned.noise is None:
        return f"the confirmation takes {launches}; its power is unknown, for so is the noise"
    return (
        f"the confirmation takes {launches}; at the noise seen ({planned.noise:.1%} from launch to launch) it finds a "
        f"gain of {planned.target:.0%} with probability {planned.power:.2f}"
    )


def confirm(state: State, runtime: Runtime[Context]) -> Command[Literal["confirm", "prove"]]:
    """One planned launch; after the last of a block, a look at what the blocks say so far."""
    context = runtime.context
    entry = context.ledger.find("plan")
    assert entry is not None
    planned = Plan.from_json(entry.data["plan"])
    slot = planned.slots[state.slot]
    proposal = Proposal.from_json(entry.data["proposal"])
    config = context.baseline if slot.arm == "A" else context.baseline.patched(proposal.patch)
    number, total = state.slot + 1, len(planned.slots)
    arm = "baseline" if slot.arm == "A" else "candidate"
    context.progress.phase("confirm", f"launch {number} of at most {total}: {arm}", seconds_left(context))
    load = Load(slot.seed, slot.load_factor, slot.block, with_evals=slot.block == 0)
    carry_out(context, f"c{number}", "confirm", slot.arm, proposal, config, load)
    if number % LAUNCHES:
        return Command(goto="confirm", update=update(slot=number))
    blocks = number // LAUNCHES
    said = context.effects.once(f"look:{blocks}", "look", lambda: _look(context, planned, blocks))
    context.progress.note(f"after block {blocks} of at most {len(planned.blocks)}: {said['why']}")
    return Command(goto="confirm" if said["decision"] == "go_on" else "prove", update=update(slot=number))


def _look(context: Context, planned: Plan, blocks: int) -> dict[str, Any]:
    found = look_after(gather(context.ledger), planned, blocks)
    if found is None:
        why = f"{planned.metric} can't be told in every launch"
        return {"decision": "exhausted", "blocks": blocks, "why": why}
    return found.to_json()


def verdict(state: State, runtime: Runtime[Context]) -> Command[Literal["publish"]]:
    """The gate over the whole confirmation."""
    context = runtime.context
    context.progress.phase("verdict", "the verifiers decide", 0.0)
    context.effects.once("verdict", "verdict", lambda: judge_confirmation(context))
    return Command(goto="publish")


def judge_confirmation(context: Context) -> dict[str, Any]:
    return judged(context).to_json()
