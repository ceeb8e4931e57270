"""Workload files: YAML with a `workload:` section and, where there is a promise, an `slo:` section."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from tools.errors import UserError
from tools.measure.slo import Slo
from tools.measure.workload import WorkloadSpec

__all__ = ["parse_spec", "read_spec", "spec_yaml", "write_whole"]


def read_spec(path: Path) -> tuple[WorkloadSpec, Slo]:
    """The workload in a YAML file (a deployment.yaml is one too), and its promise.

    Raises:
        UserError: no such file, not YAML, no workload: section, or one that isn't valid.
    """
    try:
        return parse_spec(path, path.read_text())
    except OSError as error:
        raise UserError(f"{path}: expected a workload file, found {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: expected YAML, found bytes that aren't UTF-8") from None


def parse_spec(path: Path, text: str) -> tuple[WorkloadSpec, Slo]:
    """The same of a file's text; `path` is only named in messages.

    Raises:
        UserError: as `read_spec`, but for the file.
    """
    try:
        # The C loader: the shapes of a log are thousands of lines.
        data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise UserError(f"{path}: expected YAML, found {str(error).splitlines()[0]}") from None
    if not isinstance(data, dict) or "workload" not in data:
        raise UserError(f"{path}: expected a workload: section, found none")
    try:
        return WorkloadSpec.model_validate(data["workload"]), Slo.model_validate(data.get("slo") or {})
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors()[:5])
        raise UserError(f"{path}: not a valid workload: {problems}") from None


def spec_yaml(spec: WorkloadSpec, comments: Sequence[str] = ()) -> str:
    """`spec` as such a file: one line per prefix and per conversation, so that a person can still read it."""
    data = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    shapes: dict[str, Any] | None = data.pop("shapes", None)
    lines = [*(f"# {comment}" for comment in comments), "workload:"]
    dumped = yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=116)
    lines += [f"  {line}" for line in dumped.splitlines()]
    if shapes is not None:
        lines += ["  shapes:", "    prefixes:" + ("" if shapes.get("prefixes") else " []")]
        lines += [
            f"      - {{tokens: {node['tokens']}, parent: {node.get('parent', -1)}}}"
            for node in shapes.get("prefixes", [])
        ]
        lines.append("    conversations:  # turns: [new prompt tokens, output tokens, seconds since the answer before]")
        lines += [
            f"      - {{prefix: {shape.get('prefix', -1)}, turns: {_flow(shape['turns'])}}}"
            for shape in shapes["conversations"]
        ]
    return "\n".join(lines) + "\n"


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path`, whole or not at all.

    Raises:
        UserError: it can't be written there.
    """
    try:
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(text)
            Path(draft).replace(path)
        finally:
            Path(draft).unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{path}: expected a file that can be written, found {error.strerror}") from None


def _flow(turns: Sequence[Sequence[float]]) -> str:
    return "[" + ", ".join(f"[{new}, {output}, {gap:g}]" for new, output, gap in turns) + "]"
