"""`autotune import`: a command line, a compose file, a chart's values, a manifest or a unit as a deployment.yaml."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tools.errors import UserError

if TYPE_CHECKING:
    from autotune.importing import Source

__all__ = ["import_"]


def import_(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="A manifest file; - for a command on stdin; or, behind --, a command line: -- vllm serve MODEL ...",
        ),
    ],
    site: Annotated[str | None, typer.Option(help="Which of the file's commands, where it holds several.")] = None,
    model: Annotated[
        str | None, typer.Option(help="The model's folder or file here, or a name of `autotune models pull`.")
    ] = None,
    workload: Annotated[
        str | None, typer.Option(help="What users do: a preset such as chat-plus, or a workload's YAML.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The deployment to write.")] = Path("deployment.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Write a deployment.yaml from what serves a model already. Nothing is run."""
    from autotune.asked_load import asked_load
    from autotune.importing import imported, written
    from tools.redaction import printable
    from tools.whole_file import replaced

    if out.exists() and not force:
        raise UserError(f"{out}: it is there already, and is never overwritten; name another with --out, or --force")
    load = asked_load(workload, {}) if workload is not None else None
    if load is not None and load.fixed is not None:
        raise UserError(f"--workload {workload}: expected a preset or a workload's YAML, found the requests themselves")
    found = imported(_source(source, site), out, model)
    text = written(found, load, out)
    with replaced(out) as file:
        file.write(text.encode())
    for note in found.notes:
        sys.stderr.write(printable(f"note: {note}\n"))
    for each in found.left_out:
        sys.stderr.write(printable(f"not taken over: {each.what}: {each.why}\n"))
    if as_json:
        managed = [knob.name for knob in found.knobs if knob.managed]
        left_out = [{"what": each.what, "why": each.why} for each in found.left_out]
        told = {"out": str(out), "engine": found.engine, "version": found.version, "model": found.model}
        print(json.dumps({**told, "config": found.config, "managed": managed, "left_out": left_out}))
    else:
        print(f"{out}: {found.engine}, {len(found.config)} knobs; look through it, then `autotune tune {out}`")


def _source(words: list[str], site: str | None) -> Source:
    """What the arguments name: a file, stdin, or the words of a command."""
    from autotune.importing import source_at, source_of

    if words == ["-"]:
        return source_of(sys.stdin.read())
    if len(words) > 1:
        return source_of(words)
    if (file := Path(words[0])).is_file():
        return source_at(file, site)
    if " " in words[0]:
        return source_of(words[0])
    raise UserError(
        f"{words[0]}: expected a manifest, found no such file; a command line stands behind --: "
        "autotune import -- vllm serve MODEL --max-num-seqs 64"
    )
