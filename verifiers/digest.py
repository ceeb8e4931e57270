"""The digest of what a verdict follows from: a verdict says which judge gave it, and what that judge reckons with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["COVERED", "digest_on_disk", "verifiers_digest"]

COVERED = (
    "verifiers",
    "tools/blobs.py",
    "tools/canonical.py",
    "tools/deployment.py",
    "tools/errors.py",
    "tools/evals",
    "tools/ledger.py",
    "tools/manifest_ref.py",
    "tools/manifests",
    "tools/measure",
    "tools/profile",
    "tools/redaction.py",
    "tools/service/load_spec.py",
    "tools/service/soak.py",
    "tools/standing.py",
    "tools/targets",
    "autotune/harness/change.py",
    "autotune/harness/outcome.py",
)
"""What judges, whatever of tools/ it derives workloads and summaries with or has servers identified and counted by, and
what words the outcome for people."""

_TESTS_THE_JUDGES = "verifiers/gauntlet/"


@cache
def verifiers_digest() -> str:
    """Of the code that this process judges with: read once, before its first verdict."""
    return digest_on_disk()


def digest_on_disk() -> str:
    """sha256 over the paths and contents of every source file of COVERED as it lies there now, in order of path."""
    root = Path(__file__).parents[1]
    total = hashlib.sha256()
    for path in sorted(path for place in COVERED for path in _sources(root / place)):
        name = path.relative_to(root).as_posix()
        if not name.startswith(_TESTS_THE_JUDGES):
            total.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def _sources(place: Path) -> Iterator[Path]:
    return iter((place,)) if place.is_file() else place.rglob("*.py")
