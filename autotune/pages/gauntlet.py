"""The page of the gauntlet: which rule refuses which attack, and what isn't as it must be."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.gauntlet.show import marks
from autotune.pages.ink import colour
from autotune.pages.render import drawn, render
from autotune.pages.table import Cell, Mood, Table
from autotune.pages.text import svg_text
from verifiers.catalogue import RULES
from verifiers.gauntlet.classes import CLASSES, WAITING
from verifiers.gauntlet.outcome import Attacked, Controlled, Outcome

__all__ = ["gauntlet_page"]

_CELL, _LEFT, _TOP = 14, 190, 42
_INKS: Mapping[str, tuple[str, str]] = {
    "alone": ("green", "its own rule, and no other"),
    "own": ("mint", "its own rule, beside others"),
    "too": ("grey", "beside its own"),
}


def gauntlet_page(outcome: Outcome) -> str:
    """One self-contained HTML page."""
    return render(
        "gauntlet.html.jinja",
        sentence=_sentence(outcome),
        holds=outcome.holds,
        problems=_problems(outcome),
        matrix=drawn(_matrix(outcome)),
        attacks=_attacks(outcome),
        controls=_controls(outcome),
        waiting=[f"{name}, {CLASSES[name]}: {room}" for name, room in WAITING.items()],
    )


def _sentence(outcome: Outcome) -> str:
    caught = len(outcome.attacks) - len(outcome.missed)
    honest = len(outcome.controls) - len(outcome.refused_wrongly)
    return (
        f"{caught} of {len(outcome.attacks)} attacks were refused by the rule that is there for them; {honest} of "
        f"{len(outcome.controls)} honest runs were judged as they should be."
    )


def _problems(outcome: Outcome) -> list[str]:
    found = [f"{one.id} ({one.attack}) was not refused by {one.rule}: {one.lie}" for one in outcome.missed]
    for control in outcome.refused_wrongly:
        why = f"refused by {', '.join(control.wrongly)}" if control.wrongly else "accepted without a gain"
        found.append(f"{control.id}, an honest run ({control.what}), was {why}")
    found += [f"{rule} could be left out: nothing more would be accepted" for rule in outcome.idle]
    return found + [f"{name}, {CLASSES[name]}: no attack of this class was refused" for name in outcome.uncovered]


def _matrix(outcome: Outcome) -> str:
    """Rules down, classes across; a square where one refuses the other."""
    found = marks(outcome)
    width, height = _LEFT + _CELL * len(CLASSES) + 10, _TOP + _CELL * len(RULES) + 40
    parts = [
        f'<svg viewBox="0 0 {width} {height}" role="img" xmlns="http://www.w3.org/2000/svg" '
        f'font-family="system-ui, sans-serif" font-size="9"><title>Kill matrix</title>'
    ]
    for column, name in enumerate(CLASSES):
        x = _LEFT + _CELL * column + _CELL / 2
        parts.append(
            f'<text transform="translate({x + 3},{_TOP - 6}) rotate(-90)" style="fill:{colour("muted")}">'
            f"<title>{svg_text(CLASSES[name])}</title>{name}</text>"
        )
    for row, rule in enumerate(RULES):
        y = _TOP + _CELL * row
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 10}" text-anchor="end" style="fill:{colour("ink")}">'
            f"<title>{svg_text(rule.question)}</title>{svg_text(rule.id)}</text>"
        )
        for column, name in enumerate(CLASSES):
            ink = _INKS[found[rule.id, name]][0] if (rule.id, name) in found else "grid"
            told = f"{rule.id}, {name}: {_INKS[found[rule.id, name]][1]}" if (rule.id, name) in found else ""
            title = f"<title>{svg_text(told)}</title>" if told else ""
            parts.append(
                f'<rect x="{_LEFT + _CELL * column}" y="{y}" width="{_CELL - 2}" height="{_CELL - 2}" rx="2" '
                f'style="fill:{colour(ink)}">{title}</rect>'
            )
    x = float(_LEFT)
    for ink, name in _INKS.values():
        y = height - 18
        parts.append(f'<rect x="{x}" y="{y}" width="12" height="12" rx="2" style="fill:{colour(ink)}"/>')
        parts.append(
            f'<text x="{x + 17}" y="{y + 9}" style="fill:{colour("muted")}">refused by {svg_text(name)}</text>'
        )
        x += 210
    return "".join([*parts, "</svg>"])


def _attacks(outcome: Outcome) -> Table:
    rows = tuple(_attack(one) for one in sorted(outcome.attacks, key=lambda one: (one.attack, one.way, one.id)))
    return Table(("attack", "case", "its rule", "what it said"), rows)


def _attack(one: Attacked) -> tuple[Cell, ...]:
    own = one.exam.refusals.get(one.rule)
    mood: Mood = "good" if own else "bad"
    others = sorted(one.exam.refused_by - {one.rule})
    also = f"also {', '.join(others)}" if others else ""
    said = own.verdict.sentence if own else "accepted"
    return (
        Cell(f"{one.attack} {CLASSES[one.attack]}", one.lie),
        Cell(one.id, "over HTTP" if one.way == "http" else ""),
        Cell(one.rule, also, mood=mood),
        Cell(said[:160], why=said),
    )


def _controls(outcome: Outcome) -> Table:
    return Table(("honest run", "case", "refused by"), tuple(_control(one) for one in outcome.controls))


def _control(one: Controlled) -> tuple[Cell, ...]:
    wrong = one.wrongly or one.accepted_wrongly
    refused = ", ".join(sorted(one.exam.refused_by)) or "nobody"
    mood: Mood = "bad" if wrong else "good"
    return Cell(one.what), Cell(one.id, "over HTTP" if one.way == "http" else ""), Cell(refused, mood=mood)
