"""The page of a report card."""

from __future__ import annotations

import math
from typing import Any

from autotune.pages.chart import Chart
from autotune.pages.render import drawn, render
from autotune.pages.scale import Scale
from autotune.pages.table import Cell, Mood, Table, plain
from autotune.report_card.card import Assessing, ReportCard
from autotune.report_card.show import ASSESSING_ROWS, TUNING_ROWS, head, tally

__all__ = ["report_card_page"]

_INKS = ("green", "ochre", "blue", "violet", "rust", "grey")
_WHY_CHARS = 300


def report_card_page(card: ReportCard) -> str:
    """One self-contained HTML page."""
    heads = tuple(head(each) for each in card.cards)
    skills = []
    if any(each.tuning for each in card.cards):
        rows = [plain(name, *(said(c.tuning) if c.tuning else "-" for c in card.cards)) for name, said in TUNING_ROWS]
        skills.append({"caption": "Tuning", "table": Table(("", *heads), tuple(rows))})
    for skill in ("benchmarking", "monitoring"):
        found: list[Assessing | None] = [getattr(each, skill) for each in card.cards]
        if any(found):
            rows = [plain(name, *(said(each) if each else "-" for each in found)) for name, said in ASSESSING_ROWS]
            skills.append({"caption": skill.capitalize(), "table": Table(("", *heads), tuple(rows))})
    return render(
        "report_card.html.jinja",
        lead=_lead(card),
        skills=skills,
        regret=drawn(_regret(card)),
        scenarios=_scenarios(card, heads),
    )


def _lead(card: ReportCard) -> str:
    tuned = sum(row["skill"] == "tuning" for row in card.scenarios)
    return (
        f"{tuned} deployments to tune on recorded surfaces, by the real graph with its ledger, verifiers and commits, "
        f"and {len(card.scenarios) - tuned} benchmarks and alerts to judge; {card.k} attempts each, seed {card.seed}, "
        f"at most {card.trials} trials a run."
    )


def _scenarios(card: ReportCard, heads: tuple[str, ...]) -> Table:
    rows = []
    for row in card.scenarios:
        cells = [Cell(row["id"], row["about"] or row["skill"]), Cell(", ".join(row["right"]))]
        for each in card.cards:
            attempts = row["attempts"].get(each.proposer, [])
            why = "; ".join(f"{a['blame']}: {a['why']}" for a in attempts if not a["success"])[:_WHY_CHARS]
            cells.append(Cell(tally(attempts), why=why, mood=_mood(attempts)))
        rows.append(tuple(cells))
    return Table(("scenario", "right", *heads), tuple(rows))


def _mood(attempts: list[dict[str, Any]]) -> Mood:
    if not attempts:
        return ""
    succeeded = sum(bool(attempt["success"]) for attempt in attempts)
    return "good" if succeeded == len(attempts) else "warn" if succeeded else "bad"


def _regret(card: ReportCard) -> str:
    """A dot a run that its proposer played to the end, a column a scenario; empty where nothing could be improved."""
    rows = [row for row in card.scenarios if row["skill"] == "tuning" and row["right"] == ["improve"]]
    if not rows:
        return ""
    values = [1 + a["regret"] for row in rows for attempts in row["attempts"].values() for a in attempts if a["played"]]
    top = 10 ** math.ceil(math.log10(max([*values, 2.0])))
    chart = Chart(
        "Regret of every run",
        Scale(0.0, len(rows) + 1.0, step=1.0),
        Scale(1.0, top, log=True),
        ("scenario, in the order of the table below", "1 + regret"),
    )
    for number, each in enumerate(card.cards):
        shift = 0.6 * (number / max(1, len(card.cards) - 1) - 0.5)
        dots = [
            (place + shift, 1 + attempt["regret"], f"{head(each)}, {row['id']}: {attempt['regret']:.0%}")
            for place, row in enumerate(rows, start=1)
            for attempt in row["attempts"].get(each.proposer, [])
            if attempt["played"]
        ]
        chart.dots(dots, _INKS[number % len(_INKS)], key=head(each))
    return chart.svg()
