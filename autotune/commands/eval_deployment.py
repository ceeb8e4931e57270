"""`autotune eval deployment`: what a deployment says to its evals, alone or against an earlier recording."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tools.errors import UserError

if TYPE_CHECKING:
    from autotune.evaluation import Recording
    from verifiers.verdict import Verdict

__all__ = ["evaluate"]

REFUSED, UNDECIDED = 2, 3
"""Exit codes: a rule failed; none did, and one couldn't tell."""
LAUNCHES = 2
"Of which a recording consists: one can't show how much a deployment differs from itself."


def evaluate(
    deployment: Annotated[Path, typer.Argument(help="A deployment.yaml; it is launched twice, as it stands.")],
    against: Annotated[
        Path | None,
        typer.Option(help="An earlier --out file, or a run's folder: compare with it by the rules of quality."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write all that was said there, for a later --against.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Ask a deployment the bundled evals and its own, and say how it scores.

    Exit codes with --against: 2, something was lost; 3, it can't be told.
    """
    import json

    from autotune.console import run_progress
    from autotune.evaluation import compared, read_recording, record, scores_of, write_recording

    if out is not None and not out.absolute().parent.is_dir():
        raise UserError(f"{out}: expected a folder to write to, found none at {out.absolute().parent}")
    before = read_recording(against) if against else None
    with run_progress() as progress:
        declared, space, said = record(deployment, LAUNCHES, progress)
    if out is not None:
        write_recording(out, said)
    verdicts = compared(declared, space, before, said) if before else []
    if as_json:
        found = {"suite": said.launches[0].suite, "scores": scores_of(said.launches)}
        found |= {"before": scores_of(before.launches)} if before else {}
        print(json.dumps({**found, "verdicts": [verdict.to_json() for verdict in verdicts]}))
    else:
        _show(said, before, verdicts)
    statuses = {verdict.status for verdict in verdicts}
    if "FAIL" in statuses:
        raise typer.Exit(REFUSED)
    if statuses - {"PASS"}:
        raise typer.Exit(UNDECIDED)


def _show(said: Recording, before: Recording | None, verdicts: list[Verdict]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from autotune.console import out
    from autotune.evaluation import scores_of

    now, then = scores_of(said.launches), scores_of(before.launches) if before else {}
    table = Table("eval", *(["before"] if before else []), "score", title_justify="left")
    table.title = f"{len(said.launches)} launches, means; tasks from 0 to 1"
    for name, score in now.items():
        earlier = [f"{then[name]:.3f}" if name in then else "-"] if before else []
        table.add_row(name, *earlier, f"{score:.3f}")
    out.print(table)
    if verdicts:
        table = Table("verdict", "rule", "why", title="Against the earlier recording", title_justify="left")
        for verdict in verdicts:
            table.add_row(verdict.status, verdict.rule, escape(verdict.sentence))
        out.print(table)
