"""No command goes through a shell: every program is started from a list of arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("agents", "autotune", "benchmarks", "engine", "tools", "verifiers", "tests")
THROUGH_A_SHELL = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"} | {
    f"{module}.{name}" for module in ("asyncio", "asyncio.subprocess") for name in ("create_subprocess_shell",)
}
STARTS = {f"subprocess.{name}" for name in ("Popen", "run", "call", "check_call", "check_output")}


def wrong(source: str, name: str = "") -> list[str]:
    """Places in `source` that start a program by a text in place of a list."""
    return [f"{name}:{call.lineno}: {told}" for call, told in _wrong(ast.parse(source))]


def _wrong(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    known = _imported(tree)
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        called = _dotted(call.func)
        head, dot, tail = called.partition(".")
        called = f"{known.get(head, head)}{dot}{tail}"
        if called in THROUGH_A_SHELL:
            yield call, called
        if any(word.arg == "shell" and not _is(word.value, False) for word in call.keywords):
            yield call, "shell="
        given = call.args[0] if call.args else next((word.value for word in call.keywords if word.arg == "args"), None)
        if called in STARTS and (isinstance(given, ast.JoinedStr) or _is_text(given)):
            yield call, f"{called} with a text"


def _imported(tree: ast.Module) -> dict[str, str]:
    """Names by which a module calls what it imported -> the full names."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _is(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _is_text(node: ast.expr | None) -> bool:
    if isinstance(node, ast.BinOp):  # "a" + b, "a %s" % b
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_goes_through_a_shell(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    assert [place for file in files for place in wrong(file.read_text(), str(file.relative_to(ROOT)))] == []


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.system('id')",
        "from os import popen as p\np('id')",
        "import subprocess\nsubprocess.run(['id'], shell=True)",
        "import subprocess as s\ns.Popen(f'kill {1}')",
        "from subprocess import check_output\ncheck_output('kill ' + '1')",
        "import subprocess\nsubprocess.run(args='id')",
        "import asyncio\nasyncio.create_subprocess_shell('id')",
    ],
)
def test_what_does_would_be_found(source: str) -> None:
    assert wrong(source)
    assert wrong("import subprocess\nsubprocess.run(['id'], shell=False)") == []
