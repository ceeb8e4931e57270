"""The loop: decide, preflight, trial, judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from langgraph.runtime import Runtime
from langgraph.types import Command

from agents.actions import (
    ACTION_KINDS,
    Action,
    ActionError,
    Finish,
    Inspect,
    Measure,
    Profile,
    Propose,
    Search,
    Weigh,
    check_action,
    parse_action,
)
from agents.proposer import Message, ProposerFailed
from agents.usage import Usage
from autotune.harness.ask import ask_search, stop_reason
from autotune.harness.change import shown_of
from autotune.harness.context import Context
from autotune.harness.estimate import seconds_left, too_small, trials_affordable
from autotune.harness.judging import judged_trial
from autotune.harness.killswitch import Stopped
from autotune.harness.share import owed_to_search
from autotune.harness.state import State, update
from autotune.harness.trials import Load, carry_out
from autotune.harness.unmeasured import write_down
from autotune.harness.view import view_of
from tools.proposal import Proposal, Source
from tools.targets.knobs import KnobError
from verifiers import Judgement, gather, judge
from verifiers.digest import verifiers_digest

__all__ = ["decide", "judge_trial", "preflight", "trial"]

_REASON_CHARS = 400


def decide(state: State, runtime: Runtime[Context]) -> Command[Literal["decide", "preflight", "plan"]]:
    """Ask the proposer for one typed action, unless the search still has trials to spend or the budget is spent.

    Raises:
        Stopped: the budget never allowed a single trial, so that nothing can be said about the deployment.
    """
    context = runtime.context
    turn = state.turn + 1
    if (lacking := too_small(context)) is not None:
        raise Stopped(lacking)
    if trials_affordable(context) == 0 or turn > context.effects.budget.turns:
        limit = "turns" if turn > context.effects.budget.turns else "trials or time"
        context.progress.note(f"exploration ends: its {limit} are spent")
        return Command(goto="plan")
    if _searches(context, state, turn):
        return _search_turn(context, turn, state.queued)
    recorded = context.effects.once(f"action:{turn}", "action", lambda: _ask_proposer(context), spends=True)
    action = parse_action(recorded["action"])
    if isinstance(action, Finish):
        if owed_to_search(context.ledger, context.proposer.name, context.playbook.stop.patience):
            return Command(goto="decide", update=update(turn=turn))
        context.progress.note(f"exploration ends: {shown_of(context.ledger, action.reason)}")
        return Command(goto="plan")
    if isinstance(action, Search):
        return Command(goto="decide", update=update(turn=turn, queued=action.trials))
    if isinstance(action, Weigh):
        context.progress.note(f"the search is told where to look: {', '.join(r.knob for r in action.regions)}")
    unknown = isinstance(action, Measure) and action.trial not in {t.id for t in context.history.tried}
    # A belief takes effect by being in the ledger; whoever only looks has looked at the view already.
    if isinstance(action, Weigh | Inspect | Profile) or unknown:
        return Command(goto="decide", update=update(turn=turn))
    return Command(goto="preflight", update=update(turn=turn))


def _searches(context: Context, state: State, turn: int) -> bool:
    """Whether the turn is the search's. One that was decided before the run was killed stays whose it was."""
    decided = context.ledger.find(f"action:{turn}")
    if decided is not None:
        return bool(decided.data.get("by_search"))
    patience = context.playbook.stop.patience
    return bool(state.queued or owed_to_search(context.ledger, context.proposer.name, patience))


def _search_turn(context: Context, turn: int, queued: int) -> Command[Literal["decide", "preflight", "plan"]]:
    """The search's turn: granted where one is `queued`, else owed to it."""
    recorded = context.effects.once(f"action:{turn}", "action", lambda: {**_ask_search(context), "owed": not queued})
    action = parse_action(recorded["action"])
    if isinstance(action, Finish):
        # Whoever asked for the search may try something else, unless this is all that came of asking.
        before = context.ledger.find(f"action:{turn - 1}")
        in_vain = before is not None and before.data["action"]["kind"] in ("search", "finish")
        if in_vain or recorded["exhausted"]:
            context.progress.note(f"exploration ends: {action.reason}")
            return Command(goto="plan")
        context.progress.note(f"the search ends: {action.reason}")
        return Command(goto="decide", update=update(turn=turn, queued=0))
    return Command(goto="preflight", update=update(turn=turn, queued=max(0, queued - 1)))


def _ask_proposer(context: Context) -> dict[str, Any]:
    if any(entry.kind == "action" and entry.data.get("proposer_failed") for entry in context.ledger):
        return _record(Search(trials=1, why="the proposer is out; the search goes on without it"))
    spent = context.effects.budget.allowance(context.ledger).spent
    if context.proposer.name == "llm" and spent is not None:
        return _without_proposer(context, spent, Usage())
    view = view_of(context)
    try:
        turn = context.proposer.turn(view)
    except ProposerFailed as failed:
        return _without_proposer(context, str(failed), failed.usage, failed.transcript)
    if isinstance(turn.action, Weigh):  # a proposal is judged in the preflight; a belief goes straight to the search
        try:
            check_action(turn.action, view, ACTION_KINDS)
        except ActionError as wrong:
            return _without_proposer(context, str(wrong), turn.usage, turn.transcript)
    return {**_record(turn.action), "usage": turn.usage.to_json(), "transcript": list(turn.transcript)}


def _without_proposer(context: Context, why: str, usage: Usage, said: Sequence[Message] = ()) -> dict[str, Any]:
    context.progress.note(f"the search goes on without the proposer: {why}")
    fallback = Search(trials=1, why="the proposer is out; the search goes on without it")
    return {**_record(fallback), "proposer_failed": why, "usage": usage.to_json(), "transcript": list(said)}


def _ask_search(context: Context) -> dict[str, Any]:
    searched = any(t.source == "search" for t in context.history.candidates)
    if searched and (reason := stop_reason(context)) is not None:
        return {**_record(Finish(reason=reason[:_REASON_CHARS])), "by_search": True, "exhausted": False}
    patch = ask_search(context)
    if patch is None:
        return {**_record(Finish(reason="every config of the space was tried")), "by_search": True, "exhausted": True}
    return {**_record(Propose(patch=patch, hypothesis="search")), "by_search": True}


def _record(action: Action) -> dict[str, Any]:
    return {"action": action.model_dump(mode="json")}


def _proposal(context: Context, turn: int) -> tuple[Proposal, bool]:
    """The proposal that the decision of `turn` made, and whether it repeats a config on purpose."""
    entry = context.ledger.find(f"action:{turn}")
    assert entry is not None
    action = parse_action(entry.data["action"])
    asked: Source = "llm" if context.proposer.name == "llm" else "playbook"
    source: Source = "search" if entry.data.get("by_search") else asked
    if isinstance(action, Measure):
        tried = next(t for t in context.history.tried if t.id == action.trial)
        return Proposal(tried.patch, f"measure {action.trial} again", source), True
    assert isinstance(action, Propose)
    return Proposal(action.patch, action.hypothesis, source), False


def preflight(state: State, runtime: Runtime[Context]) -> Command[Literal["decide", "trial", "plan"]]:
    """Cheap questions before a launch is spent: policy, duplicates, memory.

    Where nothing but the config that serves already can be measured, what passes them is written down, and that is all.
    """
    context = runtime.context
    verdict = context.effects.once(
        f"preflight:{state.turn}", "preflight", lambda: _preflight(context, *_proposal(context, state.turn))
    )
    if verdict["status"] == "PASS" and context.target.can_apply:
        return Command(goto="trial")
    if verdict["status"] == "PASS":
        context.effects.once("proposed", "proposed", lambda: write_down(context, _proposal(context, state.turn)[0]))
        return Command(goto="plan")
    refusal = next(v for v in verdict["verdicts"] if v["status"] != "PASS")
    context.progress.note(f"refused before a launch: {refusal['sentence']}")
    return Command(goto="decide")


def _preflight(context: Context, proposal: Proposal, repeats: bool) -> dict[str, Any]:
    if repeats:  # a config that was measured already has passed these questions, or is the owner's own
        return {"proposal": proposal.to_json(), **Judgement((), "PASS", 0.0, verifiers_digest()).to_json()}
    evidence = gather(context.ledger)
    candidate, need, unfit = context.baseline.patched(proposal.patch), None, ""
    try:
        need = context.target.memory(candidate).total_bytes
    except KnobError as refusal:
        unfit = str(refusal)
    proposed = replace(evidence.proposing(candidate, need, unfit=unfit), patch=proposal.patch)
    judgement = judge("preflight", proposed)
    return {
        "proposal": proposal.to_json(),
        "memory_need_bytes": need,
        "unfit": unfit,
        **judgement.to_json(),
    }


def trial(state: State, runtime: Runtime[Context]) -> Command[Literal["judge_trial"]]:
    """Launch and measure what passed the preflight."""
    context = runtime.context
    proposal, _ = _proposal(context, state.turn)
    told = ", ".join(f"{name}={value}" for name, value in proposal.patch.items()) or "the baseline again"
    context.progress.phase("explore", told, seconds_left(context))
    config = context.baseline.patched(proposal.patch)
    carry_out(context, f"t{state.turn}", "search", "B", proposal, config, Load(context.search_seed))
    return Command(goto="judge_trial")


def judge_trial(state: State, runtime: Runtime[Context]) -> Command[Literal["decide"]]:
    """Ask whether the trial may be believed; only then can it become the incumbent."""
    context = runtime.context
    trial_id = f"t{state.turn}"
    context.effects.once(f"judge:{trial_id}", "judgement", lambda: _judge_trial(context, trial_id))
    tried = next(t for t in context.history.tried if t.id == trial_id)
    gain = context.history.gain(tried)
    metric = context.file.deployment.objective.metric
    if gain is None:
        context.progress.note(f"{trial_id}: {tried.outcome} {tried.refusal}".rstrip())
    else:
        context.progress.note(
            f"{trial_id}: {metric} {context.history.objective(tried):.1f}, {gain:+.1%} against the baseline"
        )
    return Command(goto="decide")


def _judge_trial(context: Context, trial_id: str) -> dict[str, Any]:
    evidence = gather(context.ledger)
    mine = tuple(t for t in evidence.search if t.id == trial_id)
    if mine[0].measurement is None:
        return {"trial": trial_id, "verdicts": [], "status": "ERROR", "score": 0.0}
    return {"trial": trial_id, **judged_trial(context, trial_id).to_json()}
