"""Showing a comparison on a terminal: who takes part, the figures, who is better, and what speaks against it."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from autotune.compare.comparison import Comparison
from autotune.compare.sentences import conclusions, notes
from autotune.compare.table import Figure, figures, sizes
from autotune.console import out, printable

__all__ = ["show"]

_COLOURS = {True: "green", False: "red", None: "dim"}


def show(found: Comparison) -> None:
    """Print `found` to stdout."""
    names = [escape(printable(entry.name)) for entry in found.entries]
    parties = Table("", *names, title=f"{found.workload}, {found.rounds} rounds", title_justify="left")
    for row in sizes(found):
        parties.add_row(*(escape(printable(cell)) for cell in row))
    out.print(parties)
    if found.metrics:
        title = f"Medians, and ratios to {names[0]} paired by round with their 95 % intervals"
        table = Table("", *names, title=title, title_justify="left")
        for metric in found.metrics:
            table.add_row(metric.words, *(_cell(figure) for figure in figures(found, metric)))
        out.print(table)
    for sentence in conclusions(found):
        out.print(escape(printable(sentence)), soft_wrap=True)
    for note in notes(found):
        out.print(f"[yellow]note[/]: {escape(printable(note))}", soft_wrap=True)


def _cell(figure: Figure) -> str:
    return figure.median + (f"\n[{_COLOURS[figure.better]}]{escape(figure.ratio)}[/]" if figure.ratio else "")
