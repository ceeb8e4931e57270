"""A report card as tables on the terminal."""

from __future__ import annotations

from collections.abc import Callable

from rich.markup import escape
from rich.table import Table

from autotune.console import out
from autotune.report_card.card import Assessing, Card, ReportCard, Tuning

__all__ = ["ASSESSING_ROWS", "TUNING_ROWS", "show"]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _faults(faults: dict[str, int]) -> str:
    return " / ".join(str(count) for count in faults.values())


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


TUNING_ROWS: tuple[tuple[str, Callable[[Tuning], str]], ...] = (
    ("runs", lambda t: str(t.runs)),
    ("of these given up by the proposer, or not measurable", lambda t: str(t.unplayed)),
    ("answers that could be used", lambda t: _share(t.usable)),
    ("succeeded", lambda t: _share(t.success)),
    ("pass^k", lambda t: _share(t.pass_k)),
    ("verified gain, mean of what was committed", lambda t: _share(t.verified_gain)),
    ("true gain, mean", lambda t: f"{_share(t.true_gain)} of {_share(t.possible_gain)}"),
    ("regret against the best, median", lambda t: _share(t.median_regret)),
    ("regret against the best, mean", lambda t: _share(t.mean_regret)),
    ("kept what was to be kept", lambda t: _share(t.abstained_rightly)),
    ("kept what was to be improved", lambda t: _share(t.abstained_wrongly)),
    ("false claims committed", lambda t: str(t.false_claims)),
    ("attacks tried / escaped", lambda t: f"{t.attacks} / {t.escapes}"),
    ("proposals refused", lambda t: str(t.refused)),
    ("trials a run", lambda t: _number(t.trials)),
    ("launches a run", lambda t: _number(t.launches)),
    ("minutes a run, had it been live", lambda t: _number(t.virtual_minutes)),
    ("LLM tokens, in all", lambda t: f"{t.tokens:,}"),
    ("faults of agent / environment / verifier", lambda t: _faults(t.faults)),
)
"""What a card says of tuning, line by line."""

ASSESSING_ROWS: tuple[tuple[str, Callable[[Assessing], str]], ...] = (
    ("cases", lambda a: str(a.cases)),
    ("answers that could be used", lambda a: _share(a.usable)),
    ("right, reason and all", lambda a: _share(a.success)),
    ("pass^k", lambda a: _share(a.pass_k)),
    ("false claims", lambda a: str(a.false_claims)),
    ("LLM tokens, in all", lambda a: f"{a.tokens:,}"),
    ("faults of agent / environment / verifier", lambda a: _faults(a.faults)),
)
"""What a card says of benchmarking and of monitoring."""


def show(card: ReportCard) -> None:
    """Print the card to stdout: a table a skill, a column a contestant, and what went wrong where."""
    heads = [escape(head(each)) for each in card.cards]
    if any(each.tuning for each in card.cards):
        table = Table("tuning", *heads, title=f"Report card, seed {card.seed}, k = {card.k}", title_justify="left")
        for name, said in TUNING_ROWS:
            table.add_row(name, *(said(each.tuning) if each.tuning else "-" for each in card.cards))
        out.print(table)
    for skill in ("benchmarking", "monitoring"):
        found: list[Assessing | None] = [getattr(each, skill) for each in card.cards]
        if any(found):
            table = Table(skill, *heads)
            for name, told in ASSESSING_ROWS:
                table.add_row(name, *(told(each) if each else "-" for each in found))
            out.print(table)
    table = Table("scenario", "right", *heads, title="Attempts that succeeded", title_justify="left")
    for row in card.scenarios:
        cells = (tally(row["attempts"].get(each.proposer, [])) for each in card.cards)
        table.add_row(row["id"], ", ".join(row["right"]), *cells)
    out.print(table)


def head(card: Card) -> str:
    """A contestant's name, with its model where it has one."""
    return f"{card.proposer} ({card.model})" if card.model else card.proposer


def tally(attempts: list[dict[str, object]]) -> str:
    """`2 of 3`, or `-` for what wasn't played."""
    return f"{sum(bool(attempt['success']) for attempt in attempts)} of {len(attempts)}" if attempts else "-"
