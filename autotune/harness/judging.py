"""Judging: ask the gate, and look at the machine once more before physics alone refuses what was measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from autotune.harness.context import Context
from tools.profile.roofline import Roofline
from verifiers import Evidence, Judgement, Stage, gather, judge
from verifiers.machine import machine_of

__all__ = ["judged", "judged_trial"]

_PHYSICS = "physics."


def judged(context: Context, *, without: frozenset[str] = frozenset()) -> Judgement:
    """The gate's judgement of the whole confirmation."""
    return _judged(context, "confirm", "confirm", lambda evidence: evidence, without)


def judged_trial(context: Context, trial_id: str) -> Judgement:
    """The gate's judgement of one trial of the exploration."""
    about = partial(_about, trial_id=trial_id)
    return _judged(context, "trial", trial_id, about, frozenset())


def _about(evidence: Evidence, trial_id: str) -> Evidence:
    return evidence.about(trial for trial in evidence.search if trial.id == trial_id)


def _judged(
    context: Context, stage: Stage, what: str, about: Callable[[Evidence], Evidence], without: frozenset[str]
) -> Judgement:
    """The gate's judgement of the part of the evidence that `about` picks, and that is called `what`.

    The roofline was measured when the run began, and what else ran then made the machine seem slower than it is. Where
    a measurement lies beyond that roofline, it is measured again, recorded as `peak`, and the best of both counts. One
    look for each `what`: who asks again, as a resumed run or the verdict after `worth` does, gets the same answer.
    """
    first = judge(stage, about(gather(context.ledger)), without=without)
    refusal = first.refusal
    if refusal is None or refusal.status == "ERROR" or not refusal.rule.startswith(_PHYSICS):
        return first
    context.progress.note(f"{refusal.sentence}; the machine's peak is measured again")
    known = Roofline.from_json(dict(machine_of(context.ledger).roofline))
    context.effects.once(f"peak:{what}", "peak", lambda: context.laboratory.peak(context.file, context.baseline, known))
    return judge(stage, about(gather(context.ledger)), without=without)
