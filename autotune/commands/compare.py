"""`autotune compare`: one workload across targets on this machine, with KV caches of the same size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tools.errors import UserError

__all__ = ["compare"]

NOTHING_COUNTS = 3
"Exit code: measured, but of some contender no trial counts."


def compare(
    deployments: Annotated[list[Path], typer.Argument(metavar="DEPLOYMENT...", help="Two or more deployment.yaml.")],
    workload: Annotated[
        str | None,
        typer.Option(
            help="A preset (see `workload presets`), YAML or requests.jsonl; the first deployment's by default."
        ),
    ] = None,
    requests: Annotated[int | None, typer.Option(min=1, help="How many, in place of the workload's own.")] = None,
    kv: Annotated[
        str | None,
        typer.Option(help="KV cache of each, e.g. 512MiB; `own`: as configured. The smallest of theirs by default."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Fresh launches of each.")] = 3,
    budget: Annotated[str | None, typer.Option(help="Most wall clock: 90s, 20m.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the first round's requests.")] = None,
    floor: Annotated[bool, typer.Option(help="First measure the client itself (about 3 s).")] = True,
    out: Annotated[
        Path | None, typer.Option(help="Raw trials as JSON lines; the same command goes on where they end.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Write an HTML page with the pictures.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Write the picture alone, as .svg.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Compare deployments on this machine under one workload, each with a KV cache of the same size.

    Launches are fresh, interleaved in a balanced order and sent the same requests in a round. Ctrl-C stops, and shows
    what there is. Exit code 3: of some deployment no trial counts.
    """
    import json

    from autotune.asked_load import AskedLoad, asked_load
    from autotune.compare import Rounds, contenders, document, equalised, parse_bytes, run_compare, show
    from autotune.compare.files import CompareFiles
    from autotune.console import run_progress
    from autotune.duration import parse_seconds

    files = CompareFiles.asked(page, picture)
    kv_bytes = None if kv in (None, "own") else parse_bytes("--kv", str(kv))
    asked = Rounds(rounds, None if budget is None else parse_seconds("--budget", budget), seed)
    entered = contenders(deployments)
    own = entered[0].file.deployment
    load = AskedLoad(own.workload, own.slo, own.objective.metric) if workload is None else asked_load(workload, {})
    if requests is not None:
        load = load.of(requests)
    if load.fixed is not None and seed is not None:
        raise UserError("expected no --seed: the workload's file holds the very requests")
    if kv != "own":
        entered = equalised(entered, kv_bytes)
    with run_progress() as progress:
        found = run_compare(entered, load, asked, out, floor, progress)
    if as_json:
        print(json.dumps(document(found)), flush=True)
    else:
        show(found)
    files.write(found)
    if found.interrupted:
        raise typer.Exit(130)
    if not all(found.counted(entry) for entry in found.entries):
        raise typer.Exit(NOTHING_COUNTS)
