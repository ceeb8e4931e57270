"""CommittedChange: what a commit of ours changed in a deployment, read from the commit itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from tools.deployment import Deployment, parse_deployment
from tools.errors import UserError
from tools.manifests.yaml_file import YamlFile
from tools.repo import file_at, files_changed, full_sha, read_trailers, root_of
from tools.standing import Standing
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
    file = root / _deployment_of(root, sha, changed)
    before, after = file_at(file, f"{sha}^"), file_at(file, sha)
    old, new = (parse_deployment(YamlFile.parse(file, text)).deployment for text in (before, after))
    if old.model_copy(update={"config": {}}) != new.model_copy(update={"config": {}}) or set(old.config) - set(
        new.config
    ):
        raise UserError(f"commit {sha[:12]}: expected a change of knobs under config: alone, found more in {file.name}")
    patch = {
        name: value for name, value in new.config.items() if name not in old.config or _other(old.config[name], value)
    }
    if old.manifest is not None:
        manifest = root / old.manifest.beside(file.relative_to(root).as_posix())
        standing = Standing.of(old, manifest, file_at(manifest, f"{sha}^"))
        if standing.changed(patch) != file_at(manifest, sha):
            raise UserError(f"commit {sha[:12]}: {manifest.name} doesn't change as the config of {file.name} does")
    return CommittedChange(sha, root, file, before, old, patch, run, trailers.get("Autotune-Environment", ""))


def _deployment_of(root: Path, sha: str, changed: Sequence[str]) -> str:
    """Which of the changed files is the deployment: the only one, or the one that names the other as its manifest."""
    if len(changed) == 1:
        return changed[0]
    for name, other in permutations(changed, 2) if len(changed) == 2 else ():
        try:
            deployment = parse_deployment(YamlFile.parse(root / name, file_at(root / name, sha))).deployment
        except UserError:
            continue  # that one is the manifest
        if deployment.manifest is not None and deployment.manifest.beside(name) == other:
            return name
    raise UserError(f"commit {sha[:12]}: expected a change of one deployment, found {len(changed)} changed files")


def _other(old: Value, new: Value) -> bool:
    return old != new or type(old) is not type(new)
