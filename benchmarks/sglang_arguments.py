"""SGLang's published argument table, read from its package's source without importing it: it needs a GPU's libraries.

    pip download --no-deps --dest FOLDER sglang==0.5.23
    python -m benchmarks.sglang_arguments FOLDER/sglang-*.whl > arguments.json

One JSON object: {flag: {spellings, takes, choices, default, numbers}}, as `tools.targets.tables` reads a help text.
"""

from __future__ import annotations

import ast
import json
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Literal

from tools.targets.tables.engine_flag import EngineFlag, Takes

__all__ = ["published_flags"]

_SERVER_ARGS = "sglang/srt/server_args.py"
_FIELDS = "sglang/srt/arg_groups/fields/"
_LISTS = "sglang/srt/arg_groups/choices.py"


def published_flags(package: Path) -> tuple[EngineFlag, ...]:
    """Every flag of the server in `package`, a wheel or an sdist of SGLang."""
    trees = {name: ast.parse(text) for name, text in _sources(package).items()}
    lists = {name: words for tree in trees.values() for name, words in _word_lists(tree)}
    defaults = dict(_dataclass_defaults(trees[_SERVER_ARGS]))
    found = list(_added(trees[_SERVER_ARGS], lists, defaults))
    return (*found, *(flag for tree in trees.values() for flag in _fields(tree, lists)))


def _sources(package: Path) -> dict[str, str]:
    """The files that hold arguments, by their path from `sglang/` on."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            return {name: wheel.read(name).decode() for name in wheel.namelist() if _holds_arguments(name)}
    texts: dict[str, str] = {}
    with tarfile.open(package) as archive:
        for member in archive:
            name = str(PurePosixPath(*PurePosixPath(member.name).parts[1:]))
            if member.isfile() and _holds_arguments(name):
                file = archive.extractfile(member)
                assert file is not None, name
                texts[name] = file.read().decode()
    return texts


def _holds_arguments(name: str) -> bool:
    return name in (_SERVER_ARGS, _LISTS) or (name.startswith(_FIELDS) and name.endswith(".py"))


def _word_lists(tree: ast.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Module-level lists of words, as choices are named."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.List):
            yield node.targets[0].id, _words(node.value)


def _words(node: ast.expr, lists: Mapping[str, tuple[str, ...]] | None = None) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (lists or {}).get(node.id, ())
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(str(each.value) for each in node.elts if isinstance(each, ast.Constant))
    return ()


def _dataclass_defaults(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == "ServerArgs":
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.value:
                    yield field.target.id, _said(field.value)


def _said(node: ast.expr) -> str:
    try:
        return str(ast.literal_eval(node))
    except ValueError:
        return ast.unparse(node)


def _added(tree: ast.Module, lists: Mapping[str, tuple[str, ...]], defaults: Mapping[str, str]) -> Iterator[EngineFlag]:
    """Flags of `parser.add_argument(...)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            spellings = tuple(str(each.value) for each in node.args if isinstance(each, ast.Constant))
            said = {each.arg: each.value for each in node.keywords if each.arg}
            default = said.get("default")
            told = None if default is None else _said(default)
            if isinstance(default, ast.Attribute):
                told = defaults.get(default.attr)
            action = ast.unparse(said["action"]) if "action" in said else ""
            takes: Takes = "values" if "nargs" in said else "nothing" if action else "value"
            choices = _words(said["choices"], lists) if "choices" in said else ()
            yield EngineFlag(spellings, takes, choices, told, _numbers(ast.unparse(said.get("type", ast.Constant("")))))


def _numbers(kind: str) -> Literal["int", "float"] | None:
    if "float" in kind:
        return "float"
    return "int" if "int" in kind else None


def _fields(tree: ast.Module, lists: Mapping[str, tuple[str, ...]]) -> Iterator[EngineFlag]:
    """Flags of `name: A[type, Arg(...)] = default`."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        annotation = node.annotation
        if not (isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "A"):
            continue
        assert isinstance(annotation.slice, ast.Tuple), ast.unparse(annotation)
        kind, arg = ast.unparse(annotation.slice.elts[0]), annotation.slice.elts[1]
        said = {each.arg: each.value for each in arg.keywords if each.arg} if isinstance(arg, ast.Call) else {}
        if "no_cli" in said:
            continue
        flag = _said(said["cli_name"]) if "cli_name" in said else "--" + node.target.id.replace("_", "-")
        aliases = _words(said["aliases"]) if "aliases" in said else ()
        both = "BooleanOptionalAction" in ast.unparse(said["action"]) if "action" in said else False
        choices = _words(said["choices"], lists) if "choices" in said else _literal(annotation.slice.elts[0])
        takes: Takes = "nothing" if both or kind == "bool" else "values" if "List" in kind else "value"
        negative = ("--no-" + flag.removeprefix("--"),) if both else ()
        numbers = None if choices or takes == "nothing" else _numbers(kind)
        default = _said(node.value) if node.value else None
        yield EngineFlag((flag, *aliases, *negative), takes, choices, default, numbers)


def _literal(node: ast.expr) -> tuple[str, ...]:
    for each in ast.walk(node):
        if isinstance(each, ast.Subscript) and ast.unparse(each.value) == "Literal":
            return _words(each.slice)
    return ()


def main() -> None:
    flags = {flag.spellings[0]: asdict(flag) for flag in published_flags(Path(sys.argv[1]))}
    json.dump(flags, sys.stdout, indent=0, sort_keys=True)


if __name__ == "__main__":
    main()
