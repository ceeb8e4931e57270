"""A verdict says which judge gave it: the digest covers all that the judge reckons with."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from verifiers.digest import COVERED, digest_on_disk, verifiers_digest

ROOT = Path(__file__).parents[2]
ROOMS = ("verifiers", "tools", "autotune", "agents", "engine")


def imported(file: Path) -> Iterator[Path]:
    """Files of ours that `file` imports by name."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            if name.partition(".")[0] in ROOMS:
                place = ROOT / name.replace(".", "/")
                yield from (path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file())


def reached() -> set[str]:
    """Source files that the judges come to use, from one import to the next."""
    waiting = [p for p in (ROOT / "verifiers").rglob("*.py") if "gauntlet" not in p.parts]
    seen = set(waiting)
    while waiting:
        for path in imported(waiting.pop()):
            if path not in seen:
                seen.add(path)
                waiting.append(path)
    return {path.relative_to(ROOT).as_posix() for path in seen}


def test_all_that_the_judges_use_is_covered() -> None:
    uncovered = [name for name in reached() if not any(name == c or name.startswith(f"{c}/") for c in COVERED)]
    assert sorted(uncovered) == []
    assert all((ROOT / place).exists() for place in COVERED)


def test_the_process_judges_with_what_it_read_first() -> None:
    assert len(verifiers_digest()) == 64 and verifiers_digest() == digest_on_disk()
