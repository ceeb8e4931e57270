"""Rows `classes`, `controls` and `mutation`: the gauntlet as `autotune gauntlet` runs it."""

from __future__ import annotations

from functools import cache
from typing import Any

from autotune.gauntlet import run_gauntlet
from benchmarks.table import Row
from verifiers.catalogue import RULES
from verifiers.gauntlet.classes import CLASSES, WAITING
from verifiers.gauntlet.outcome import Outcome

__all__ = ["classes", "controls", "mutation"]


class _Silent:
    """Nobody watches."""

    def phase(self, name: str, detail: str, seconds_left: float | None) -> None: ...

    def note(self, text: str) -> None: ...


@cache
def _outcome(over_http: bool) -> Outcome:
    """Run once for all three rows."""
    return run_gauntlet(_Silent(), over_http=over_http)


def classes(quick: bool = False) -> Row:
    """Attack classes with a case that its own rule refuses; those that wait are named. `quick` leaves out HTTP."""
    outcome = _outcome(not quick)
    covered = {one.attack for one in outcome.attacks if one.caught}
    goal = f"all {len(CLASSES) - len(WAITING)} that don't wait"
    missed = [_told(one.id, one.attack, one.rule) for one in outcome.missed]
    return {
        "value": len(covered),
        "goal": goal,
        "ok": covered | WAITING.keys() == CLASSES.keys() and not missed,
        "attacks": len(outcome.attacks),
        "missed": missed,
        "wait": dict(WAITING),
    }


def controls(quick: bool = False) -> Row:
    """Honest runs refused for a wrong reason, or accepted without a gain. `quick` leaves out HTTP."""
    outcome = _outcome(not quick)
    wrong = [{"id": one.id, "wrongly": list(one.wrongly)} for one in outcome.refused_wrongly]
    return {"value": len(wrong), "goal": 0, "ok": not wrong, "controls": len(outcome.controls), "wrong": wrong}


def mutation(quick: bool = False) -> Row:
    """Verifiers without which some attack is accepted. `quick` leaves out HTTP."""
    outcome = _outcome(not quick)
    earned = sum(bool(ids) for ids in outcome.killers.values())
    idle = [rule for rule, ids in outcome.killers.items() if not ids]
    return {"value": earned, "goal": f"all {len(RULES)}", "ok": not idle, "idle": idle}


def _told(case: str, attack: str, rule: str) -> dict[str, Any]:
    return {"case": case, "class": attack, "rule": rule}
