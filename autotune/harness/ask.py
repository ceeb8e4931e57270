"""Asking the search for the next patch, with the run's history as what it has learned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agents.actions import Weigh, parse_action
from agents.advice import advised_priors
from autotune.harness.context import Context
from autotune.harness.history import History, Tried
from autotune.harness.view import view_of
from tools.canonical import digest
from tools.fingerprint import fingerprint_of
from tools.oracle import CrashOracle
from tools.search import Observation, Prior, Problem, Region, reason_to_stop, strategy
from tools.search.past import past_priors, past_runs
from tools.targets.knobs import KnobSpace, Value

__all__ = ["ask_search", "stop_reason"]

_PAST_CONFIGS = 3
"Of earlier runs, that are tried again here."

_LAUNCHES_FOR_NOISE = 4
"Of one config, from which their spread is taken for the noise; with fewer the search learns it from its own trials."

_MISSED, _KEPT = 0.1, -0.1
"A guardrail as a promise: by how much it was missed isn't known."


def ask_search(context: Context) -> dict[str, Value] | None:
    """The next patch against the baseline; None when every config of the space was tried or is sure not to run.

    Pure in the ledger, but for what earlier runs found: that is read once and recorded.
    """
    seen = _observations(context.history)
    return strategy("guided", _problem(context, seen)).ask(seen)


def stop_reason(context: Context) -> str | None:
    """Why further search trials aren't worth their launches; None while they are."""
    seen = _observations(context.history)
    return reason_to_stop(_problem(context, seen), seen)


def _problem(context: Context, seen: list[Observation]) -> Problem:
    space, objective = context.search_space, context.file.deployment.objective
    survey = context.ledger.find("survey")
    assert survey is not None
    oracle = CrashOracle.of(context.target, space, context.baseline, survey.data["memory_bytes"])
    history = context.history
    return Problem(
        space,
        context.baseline,
        lower_is_better=objective.lower_is_better,
        seed=context.search_seed,
        explore_share=context.playbook.explore_share,
        priors=(*_advised(context), *_found_before(context, space)),
        regions=tuple(_regions(context)),
        oracle=oracle.after(seen, context.baseline, _said(history)),
        noise=history.spread if len(history.baselines) >= _LAUNCHES_FOR_NOISE else None,
        min_effect=objective.min_effect,
    )


def _advised(context: Context) -> Iterator[Prior]:
    for advised in advised_priors(context.playbook, view_of(context)):
        if advised.weight > 0:
            yield Prior(advised.patch, advised.weight, "playbook", advised.why)


def _found_before(context: Context, space: KnobSpace) -> Iterator[Prior]:
    recorded = context.effects.once("past", "past", lambda: _past(context, space))
    for row in recorded["priors"]:
        yield Prior(row["patch"], row["weight"], "past", row["why"])


def _past(context: Context, space: KnobSpace) -> dict[str, Any]:
    runs = past_runs(context.run.path.parent, but=context.run.id).runs
    mine = fingerprint_of(context.ledger)
    found = past_priors(mine, runs, _PAST_CONFIGS, space=space, baseline=context.baseline)
    return {"priors": [{"patch": dict(prior.patch), "weight": prior.weight, "why": prior.why} for prior in found]}


def _regions(context: Context) -> Iterator[Region]:
    """What the proposer believes of each knob; of one that it spoke of twice, what it said last."""
    said: dict[str, Region] = {}
    for entry in context.ledger:
        if entry.kind == "action" and entry.data["action"]["kind"] == "weigh":
            action = parse_action(entry.data["action"])
            assert isinstance(action, Weigh)
            for one in action.regions:
                said[one.knob] = Region(one.knob, one.low, one.high, one.values, one.weight, one.why)
    yield from said.values()


def _observations(history: History) -> list[Observation]:
    seen = [_observation(history, tried) for tried in history.tried if not tried.spoilt]  # which tells nothing
    known = {digest(dict(one.patch)) for one in seen}
    for refused in history.refused:
        patch, source = refused.proposal.patch, refused.proposal.source
        if digest(dict(patch)) not in known:  # a repeated proposal says nothing against its config
            seen.append(Observation(patch, None, feasible=False, from_search=source == "search", kind="refused"))
    return seen


def _observation(history: History, tried: Tried) -> Observation:
    rails = {rail.metric for rail in history.deployment.guardrails} if tried.valid else set()
    missed = {f"guardrail {metric}": _MISSED if metric in tried.guardrail_misses else _KEPT for metric in rails}
    return Observation(
        patch=tried.patch,
        objective=history.objective(tried),
        feasible=tried.valid,
        constraints={**history.violations(tried), **missed},
        from_search=tried.source == "search",
        seconds=tried.wall_s,
        kind="" if tried.outcome == "ok" else tried.outcome,
    )


def _said(history: History) -> dict[str, str]:
    """The sentence of each failure, by its config's digest."""
    return {tried.config.digest: str(tried.failure["message"]) for tried in history.tried if tried.failure}
