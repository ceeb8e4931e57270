"""Showing an outcome: the kill matrix as a table on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from verifiers.catalogue import RULES
from verifiers.gauntlet.classes import WAITING
from verifiers.gauntlet.outcome import Attacked, Outcome

__all__ = ["marks", "show"]


def marks(outcome: Outcome) -> dict[tuple[str, str], str]:
    """(rule, class) -> `own` where a case of the class is refused by the rule that is there for it, `alone` where by
    no other, `too` where the rule refused it beside its own."""
    found: dict[tuple[str, str], str] = {}
    rank = {"too": 0, "own": 1, "alone": 2}
    for one in outcome.attacks:
        for rule in one.exam.refused_by:
            mark = "too" if rule != one.rule else "alone" if one.alone else "own"
            place = (rule, one.attack)
            if rank[mark] >= rank.get(found.get(place, "too"), 0):
                found[place] = mark
    return found


def show(outcome: Outcome, console: Console) -> None:
    """Each rule with the attacks that it refuses, then what isn't as it must be."""
    table = Table(title="Kill matrix: which rule refuses which attack", title_justify="left")
    for column in ("rule", "its own", "it alone", "others'"):
        table.add_column(column)
    for rule in RULES:
        own = [one for one in outcome.attacks if one.rule == rule.id and one.caught]
        alone = [one for one in own if one.alone]
        others = sorted(
            {one.attack for one in outcome.attacks if one.rule != rule.id and rule.id in one.exam.refused_by}
        )
        if own or others or outcome.complete:
            table.add_row(rule.id, _classes(own), _classes(alone) or "[red]none[/]", " ".join(others))
    console.print(table)
    honest = len(outcome.controls) - len(outcome.refused_wrongly)
    caught = len(outcome.attacks) - len(outcome.missed)
    console.print(f"{caught} of {len(outcome.attacks)} attacks refused by their own rule")
    console.print(f"{honest} of {len(outcome.controls)} honest runs as they should be")
    for missed in outcome.missed:
        console.print(f"[red]missed[/] {missed.id} {missed.attack} {missed.rule}: {escape(missed.lie)}")
    for control in outcome.refused_wrongly:
        why = ", ".join(control.wrongly) or "accepted without a gain"
        console.print(f"[red]wrong[/] {control.id} {escape(control.what)}: {why}")
    for rule_id in outcome.idle:
        console.print(f"[red]idle[/] {rule_id}: without it nothing more would be accepted")
    for name in outcome.uncovered:
        console.print(f"[red]uncovered[/] {name}: no case of it was refused by its own rule")
    if outcome.complete:
        for name, room in WAITING.items():
            console.print(f"waits: {name} for {room}")


def _classes(attacks: list[Attacked]) -> str:
    """`A01 (2) B02`."""
    counts: dict[str, int] = {}
    for one in attacks:
        counts[one.attack] = counts.get(one.attack, 0) + 1
    return " ".join(f"{name} ({count})" if count > 1 else name for name, count in counts.items())
