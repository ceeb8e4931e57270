"""`autotune approve`: answer the request that a run waits with, so that it commits, or doesn't."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["approve"]


def approve(
    run: Annotated[
        str, typer.Argument(metavar="[RUN]", help="A run's id or folder; the latest by default.")
    ] = "latest",
    digest: Annotated[
        str | None, typer.Option(help="Of the request that is approved, as the run printed it; without, it is shown.")
    ] = None,
    reject: Annotated[str | None, typer.Option(metavar="WHY", help="Turn it down, for this reason.")] = None,
    by: Annotated[str | None, typer.Option(help="Who answers; the login by default.")] = None,
    runs: Annotated[Path, typer.Option("--runs", help="Folder of the runs.", envvar="AUTOTUNE_RUNS")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Approve what RUN wants to commit, or turn it down. Without --digest and --reject: show what is asked.

    Exit code 0: committed, or shown. 2: turned down, or refused after all. 4: the answer is void, and the run waits on.
    """
    import json

    from autotune import harness
    from autotune.approve import asked_by, given
    from autotune.console import run_progress
    from autotune.report import write

    folder = harness.RunDir.open(runs, run)
    if digest is None and reject is None:
        asked = asked_by(folder)
        print(json.dumps(asked.to_json()) if as_json else str(asked))
        return
    answer = given(folder, digest=digest, reject=reject, by=by)
    with run_progress() as progress:
        outcome = harness.resume(folder, progress, answer=answer)
        write(outcome.run)
    told = {"run": outcome.run.id, "decision": outcome.decision, "sentence": outcome.sentence}
    print(json.dumps({**told, "exit_code": outcome.exit_code}) if as_json else outcome.sentence)
    raise typer.Exit(outcome.exit_code)
