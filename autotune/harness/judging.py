"""Judging: ask the gate, and look at the machine once more before physics alone refuses what was measured."""

from __future__ import annotations

from collections.abc import Callable

from autotune.harness.context import Context
from tools.profile.roofline import Roofline
from verifiers import Evidence, Judgement, Stage, gather, judge
from verifiers.machine import machine_of

__all__ = ["judged"]

_PHYSICS = "physics."


def judged(
    context: Context,
    stage: Stage,
    about: Callable[[Evidence], Evidence] = lambda evidence: evidence,
    *,
    without: frozenset[str] = frozenset(),
) -> Judgement:
    """The gate's judgement of the part of the evidence that `about` picks.

    The roofline was measured when the run began, and what else ran then made the machine seem slower than it is. Where
    a measurement lies beyond that roofline, it is measured again, recorded as `peak`, and the best of both counts.
    """
    first = judge(stage, about(gather(context.ledger)), without=without)
    refusal = first.refusal
    if refusal is None or refusal.status == "ERROR" or not refusal.rule.startswith(_PHYSICS):
        return first
    number = len(context.ledger.of_kind("peak")) + 1
    context.progress.note(f"{refusal.sentence}; the machine's peak is measured again")
    known = Roofline.from_json(dict(machine_of(context.ledger).roofline))
    context.effects.once(
        f"peak:{number}", "peak", lambda: context.laboratory.peak(context.file, context.baseline, known)
    )
    return judge(stage, about(gather(context.ledger)), without=without)
