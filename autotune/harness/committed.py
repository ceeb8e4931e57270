"""What was committed to a deployment before: its file's history in git, as changes of knobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.deployment import parse_deployment
from tools.errors import UserError
from tools.manifests.yaml_file import YamlFile
from tools.repo import revisions
from tools.targets.knobs import Value

__all__ = ["committed_changes"]

_COMMITS = 40
"Most commits of the file that are read: some 10 ms each."


def committed_changes(file: Path) -> list[dict[str, Any]]:
    """Commits that changed knobs of the deployment at `file`, newest first: sha, at, run (ours, else empty), changes.

    `changes` is {knob: [before, after]}, null where the knob wasn't there. A version that is no valid deployment (an
    older format, a conflict that was committed) has no knobs to compare.

    Raises:
        UserError: the file isn't in a git repository.
    """
    found = []
    for revision in revisions(file, _COMMITS):
        before, after = _knobs(file, revision.before), _knobs(file, revision.after)
        if before is None or after is None:
            continue
        changes = {
            name: [before.get(name), after.get(name)]
            for name in sorted(before.keys() | after.keys())
            if before.get(name) != after.get(name) or type(before.get(name)) is not type(after.get(name))
        }
        if changes:
            found.append({"sha": revision.sha, "at": revision.at, "run": revision.run, "changes": changes})
    return found


def _knobs(file: Path, text: str) -> dict[str, Value] | None:
    try:
        return parse_deployment(YamlFile.parse(file, text)).deployment.config
    except UserError:
        return None
