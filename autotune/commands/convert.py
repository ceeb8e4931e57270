"""`autotune convert`: the result of any benchmark, ours or another's, as another format."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tools.errors import UserError

if TYPE_CHECKING:
    from tools.formats import Reading

__all__ = ["convert"]

_FORMATS = ("vllm", "llm-d", "records", "summary")


def convert(
    file: Annotated[
        Path, typer.Argument(help="A result of autotune bench, vllm bench serve, guidellm, aiperf or inference-perf.")
    ],
    to: Annotated[str, typer.Option("--to", help="vllm, llm-d, records or summary.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write; .yaml (llm-d), .jsonl, .jsonl.gz and .parquet (records) by the suffix."),
    ] = None,
    part: Annotated[int | None, typer.Option(min=0, help="Which benchmark of a report that holds several.")] = None,
    detailed: Annotated[bool, typer.Option(help="With vllm: the lists per request too.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Read the result of a benchmark and write it in another format."""
    from tools import formats
    from tools.whole_file import replaced

    if to not in _FORMATS:
        raise UserError(f"--to: expected {', '.join(_FORMATS)}, found {to!r}")
    if to == "records" and out is None:
        raise UserError("--to records: expected --out FILE, found none; name one that ends in .jsonl.gz")
    reading = formats.read(file, part)
    for note in reading.notes:
        sys.stderr.write(f"note: {note}\n")
    if out is None:
        print(_text(to, reading, detailed, None if as_json else 2))
        return
    if to == "records":
        (formats.write_parquet if out.suffix == ".parquet" else formats.write_records)(reading, out)
    else:
        in_yaml = to == "llm-d" and out.suffix in (".yaml", ".yml")
        text = formats.llmd_yaml(formats.llmd_json(reading)) if in_yaml else _text(to, reading, detailed, 2) + "\n"
        with replaced(out) as written:
            written.write(text.encode())
    if as_json:
        print(json.dumps({"tool": reading.tool, "to": to, "out": str(out), "notes": list(reading.notes)}))


def _text(to: str, reading: Reading, detailed: bool, indent: int | None) -> str:
    """`reading` as JSON in one of the formats that are one object."""
    from tools import formats

    if to == "summary":
        return json.dumps(reading.to_json(), indent=indent)
    if to == "llm-d":
        return json.dumps(formats.llmd_json(reading), indent=indent)
    if reading.measurement is None:
        raise UserError(f"{reading.source}: expected requests, found aggregates; --to llm-d and summary take those")
    return json.dumps(formats.vllm_json(reading.measurement, model=reading.model, detailed=detailed), indent=indent)
