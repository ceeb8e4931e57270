"""The page of a comparison: who takes part, the figures, who is better, and what speaks against it."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.compare.comparison import Comparison
from autotune.compare.sentences import conclusions, notes
from autotune.compare.table import Figure, figures, sizes
from autotune.pages.compare_picture import ratios, values
from autotune.pages.render import drawn, render
from autotune.pages.table import Cell, Mood, Table, plain
from tools.targets.knobs import Value

__all__ = ["compare_page"]

_MOODS: dict[bool | None, Mood] = {True: "good", False: "bad", None: ""}


def compare_page(found: Comparison) -> str:
    """One self-contained HTML page."""
    names = [entry.name for entry in found.entries]
    rows = tuple((Cell(metric.words), *map(_cell, figures(found, metric))) for metric in found.metrics)
    pictures = [values(found, metric) for metric in found.metrics]
    return render(
        "compare.html.jinja",
        title=" against ".join(names),
        sentence=f"{found.workload}, {found.rounds} rounds of fresh launches on one machine.",
        conclusions=conclusions(found),
        notes=notes(found),
        parties=Table(("", *names), tuple(plain(*row) for row in sizes(found))),
        figures=Table(("median over rounds", *names), rows) if rows else None,
        first=found.first.name,
        ratios=drawn(ratios(found)) if found.metrics else "",
        values=[drawn(picture) for picture in pictures if picture],
        configs=[_config(entry.name, entry.config) for entry in found.entries],
    )


def _cell(figure: Figure) -> Cell:
    return Cell(figure.median, figure.ratio, mood=_MOODS[figure.better])


def _config(name: str, config: Mapping[str, Value]) -> str:
    return f"{name}: " + ", ".join(f"{knob}={value}" for knob, value in config.items())
