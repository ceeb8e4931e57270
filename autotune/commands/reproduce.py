"""`autotune reproduce`: confirm a committed change once more on this machine, with fresh launches on new seeds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from autotune.reproduce import Reproduction

__all__ = ["reproduce"]


def reproduce(
    commit: Annotated[str, typer.Argument(help="A commit that autotune made: an id, a branch or a tag.")],
    repository: Annotated[Path, typer.Option("--repo", help="A place in the repository that has it.")] = Path(),
    runs: Annotated[
        Path, typer.Option("--runs", help="Folder of the runs; the new one goes below it.", envvar="AUTOTUNE_RUNS")
    ] = Path("runs"),
    budget: Annotated[str, typer.Option("--budget", help="Wall clock for all of it: 30m, 2h.")] = "2h",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Check the record of COMMIT, confirm its change again here, and say whether it still holds.

    Exit code 0: it holds. 2: it doesn't, or its record doesn't. 3: this sample can't tell. 4: stopped before the end.
    """
    import json

    from autotune.console import run_progress
    from autotune.duration import parse_seconds
    from autotune.harness import Budget
    from autotune.reproduce import reproduce as again

    limits = Budget(wall_s=parse_seconds("--budget", budget), trials=1)
    with run_progress() as progress:
        found = again(commit, repository, runs, progress, limits)
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        _show(found)
    raise typer.Exit(found.exit_code)


def _show(found: Reproduction) -> None:
    for text in found.record:
        print(f"record: {text}")
    for text in found.differences:
        print(f"differs: {text}")
    ratios = [
        f"{ratio:.3f} {when}"
        for ratio, when in ((found.ratio_then, "when it was committed"), (found.ratio_now, "now"))
        if ratio is not None
    ]
    if ratios:
        print(f"{found.metric}, tuned / before: {', '.join(ratios)}")
    if found.run:
        print(f"run: {found.run}")
    print(f"{found.commit[:12]}: {found.answer}: {found.sentence}")
