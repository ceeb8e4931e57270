"""`autotune gauntlet`: tests the gate by attacks that it must refuse and by honest runs that it must not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["gauntlet"]


def gauntlet(
    only: Annotated[
        str | None, typer.Option(help="Only one class (A01), rule (cache.prefix_hits) or case (k01, s01, h01).")
    ] = None,
    http: Annotated[bool, typer.Option(help="Drive the servers that lie, too.")] = True,
    out: Annotated[Path | None, typer.Option(help="Folder for gauntlet.json and gauntlet.html.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Run every attack and every honest run past the verifiers, and print which rule refuses what.

    Exit code 0 only if each attack is refused by its own rule, no honest run for a wrong reason, and no rule could be
    left out; 2 otherwise.
    """
    import json

    from autotune.console import err, run_progress
    from autotune.console import out as console
    from autotune.gauntlet import run_gauntlet
    from autotune.gauntlet.show import show
    from autotune.pages.gauntlet import gauntlet_page
    from tools.whole_file import replaced

    with run_progress() as progress:
        outcome = run_gauntlet(progress, only=only, over_http=http)
    told = outcome.to_json()
    if as_json:
        print(json.dumps(told), flush=True)
    else:
        show(outcome, console)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in (("gauntlet.json", json.dumps(told, indent=2)), ("gauntlet.html", gauntlet_page(outcome))):
            with replaced(out / name) as written:
                written.write(text.encode())
        err.print(f"page: {out / 'gauntlet.html'}")
    raise typer.Exit(0 if outcome.holds else 2)
