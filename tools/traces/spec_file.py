"""Workload files: YAML with a `workload:` section and, where there is a promise, `slo:` and `objective:` sections."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from tools.deployment import Objective
from tools.errors import UserError
from tools.manifests.yaml_file import parse_data
from tools.measure.slo import Slo
from tools.measure.workload import WorkloadSpec

__all__ = ["AskedSpec", "parse_spec", "read_spec", "spec_yaml"]

_Model = TypeVar("_Model", bound=BaseModel)

_SECTIONS = ("workload", "slo", "objective")
_OF_A_DEPLOYMENT = ("model", "target")


class AskedSpec(NamedTuple):
    """What a workload file asks for."""

    spec: WorkloadSpec
    slo: Slo
    "Without bounds where the file promises nothing."
    objective: str | None
    "The metric that it is judged by before all others, where the file names one."


def read_spec(path: Path) -> AskedSpec:
    """What the workload file at `path` asks for; a deployment.yaml is one too. Of any size: a log's shapes are long.

    Raises:
        UserError: no such file, not YAML (by the rules of `parse_data`), no workload: section, one that a workload
            file doesn't have, or one that isn't valid.
    """
    try:
        return parse_spec(path, path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: expected a workload file, found none that can be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: expected YAML, found bytes that aren't UTF-8") from None


def parse_spec(path: Path, text: str) -> AskedSpec:
    """The same of a file's text; `path` is only named in messages.

    Raises:
        UserError: as `read_spec`, but for the file.
    """
    data = parse_data(path, text)
    if not any(key in data for key in _OF_A_DEPLOYMENT):  # of a deployment the other sections are somebody else's
        _require_known(path, data)
    if "workload" not in data:
        raise UserError(f"{path}: expected a workload: section, found {', '.join(sorted(data)) or 'nothing'}")
    return AskedSpec(
        _section(path, data, "workload", WorkloadSpec),
        _section(path, data, "slo", Slo) if data.get("slo") is not None else Slo(),
        _section(path, data, "objective", Objective).metric if data.get("objective") is not None else None,
    )


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


def _require_known(path: Path, data: Mapping[str, Any]) -> None:
    for key in data:
        if key not in _SECTIONS:
            # A spec without its heading, or a heading that is misspelt.
            remedy = "indent it under workload:" if key in _names(WorkloadSpec) else _nearest(key, _SECTIONS)
            raise UserError(f"{path}: expected the sections {', '.join(_SECTIONS)}, found {key!r}; {remedy}")


def _section(path: Path, data: Mapping[str, Any], name: str, model: type[_Model]) -> _Model:
    try:
        return model.model_validate(data[name])
    except ValidationError as error:
        problems = "; ".join(_sentence(problem, name, model) for problem in error.errors()[:5])
        more = f"; and {error.error_count() - 5} more" if error.error_count() > 5 else ""
        raise UserError(f"{path}: not a valid {name}: {problems}{more}") from None


def _sentence(problem: Any, name: str, model: type[BaseModel]) -> str:
    place = ".".join(map(str, (name, *problem["loc"])))
    if problem["type"] == "extra_forbidden":
        return f"{place}: unknown key; {_nearest(str(problem['loc'][-1]), sorted(_names(model)))}"
    message = str(problem["msg"]).removeprefix("Value error, ")
    found = problem.get("input")
    told = not isinstance(found, dict | list | tuple) and problem["type"] != "missing"
    return f"{place}: {message}" + (f"; found {found!r}" if told else "")


def _names(model: type[BaseModel]) -> set[str]:
    """The keys of `model` and of the models in it, as they stand in a file."""
    names: set[str] = set()
    schema = model.model_json_schema(by_alias=True)
    for part in (schema, *schema.get("$defs", {}).values()):
        names.update(part.get("properties", ()))
    return names


def _nearest(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else "remove it"


def _flow(turns: Sequence[Sequence[float]]) -> str:
    return "[" + ", ".join(f"[{new}, {output}, {gap:g}]" for new, output, gap in turns) + "]"
