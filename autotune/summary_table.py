"""What a person sees when a run has ended: the change, the comparison and the verdicts as tables."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from autotune.console import out
from autotune.harness import Outcome
from autotune.report import read_facts

__all__ = ["show"]

_COLOURS = {"PASS": "green", "FAIL": "red", "ERROR": "red", "INCONCLUSIVE": "yellow"}


def show(outcome: Outcome) -> None:
    """Print the tables of a run to stdout."""
    facts = read_facts(outcome.run)
    if facts.changes:
        table = Table("knob", "baseline", "candidate", title="Change", title_justify="left")
        for change in facts.changes:
            table.add_row(change.knob, str(change.old), str(change.new))
        out.print(table)
    if facts.comparisons:
        table = Table("metric", "baseline", "candidate", "ratio", "90 % interval", title_justify="left")
        table.title = "Baseline against candidate, medians over fresh launches"
        for row in facts.comparisons:
            bold = "bold" if row.metric == facts.objective else ""
            interval = "too few blocks" if row.low is None else f"{row.low:.3f} to {row.high:.3f}"
            table.add_row(
                row.metric, f"{row.baseline:.2f}", f"{row.tuned:.2f}", f"{row.ratio:.3f}", interval, style=bold
            )
        out.print(table)
    if facts.verdicts:
        table = Table("verdict", "rule", "why", title="Verdicts", title_justify="left")
        for verdict in facts.verdicts:
            colour = _COLOURS[verdict.status]
            table.add_row(f"[{colour}]{verdict.status}[/]", verdict.rule, escape(verdict.sentence))
        out.print(table)
    out.print(escape(outcome.sentence), style="bold")
    out.print(f"report: {outcome.run.path / 'report.html'}", soft_wrap=True)
    out.print(f"check it: autotune verify {outcome.run.path}", soft_wrap=True)
    if facts.commit:
        repository = facts.commit["repository"]
        out.print(f"the commit: git -C {repository} show {facts.commit['branch']}", soft_wrap=True)
