"""CommittedChange: what a commit of ours changed in a deployment, read from the commit itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.deployment import Deployment, parse_deployment
from tools.errors import UserError
from tools.manifests.yaml_file import YamlFile
from tools.repo import file_at, files_changed, full_sha, read_trailers, root_of
from tools.targets.knobs import Value

__all__ = ["CommittedChange", "committed_change"]


@dataclass(frozen=True)
class CommittedChange:
    """A commit, the deployment before it, and the knobs that it changed."""

    sha: str
    root: Path
    "Top of the checkout."
    file: Path
    "The deployment file, which needn't be there any more."
    before: str
    "Its text in the commit's parent."
    deployment: Deployment
    "What that says."
    patch: Mapping[str, Value]
    run: str
    "Id of the run that made the commit."
    environment: str
    "Fingerprint of where it was verified; empty where the commit doesn't say."


def committed_change(where: Path, commit: str) -> CommittedChange:
    """The change that `commit` made, in the repository around `where`.

    Raises:
        UserError: no such commit, not one of autotune's, or one that changes anything but the config of one deployment.
    """
    sha, root = full_sha(where, commit), root_of(where)
    trailers = read_trailers(where, sha)
    if not (run := trailers.get("Autotune-Run", "")):
        raise UserError(f"commit {sha[:12]}: expected one that autotune made, found none with the trailer Autotune-Run")
    changed = files_changed(where, sha)
    if len(changed) != 1:
        raise UserError(f"commit {sha[:12]}: expected a change of one deployment, found {len(changed)} changed files")
    file = root / changed[0]
    before, after = file_at(file, f"{sha}^"), file_at(file, sha)
    old, new = (parse_deployment(YamlFile.parse(file, text)).deployment for text in (before, after))
    if old.model_copy(update={"config": {}}) != new.model_copy(update={"config": {}}) or set(old.config) - set(
        new.config
    ):
        raise UserError(
            f"commit {sha[:12]}: expected a change of knobs under config: alone, found more in {changed[0]}"
        )
    patch = {
        name: value for name, value in new.config.items() if name not in old.config or _other(old.config[name], value)
    }
    return CommittedChange(sha, root, file, before, old, patch, run, trailers.get("Autotune-Environment", ""))


def _other(old: Value, new: Value) -> bool:
    return old != new or type(old) is not type(new)
