"""Choosing a target: what a deployment's `target:` names, with its model found."""

from __future__ import annotations

from pathlib import Path

from tools.deployment import Deployment
from tools.errors import UserError
from tools.models import pull
from tools.targets.bundled import BundledTarget
from tools.targets.drivers.driver import Driver
from tools.targets.external.target import ExternalTarget
from tools.targets.placement import Placement
from tools.targets.server import ServerTarget
from tools.targets.spec import BundledSpec, CommandSpec, ExternalSpec, ServerSpec
from tools.targets.target import Target

__all__ = ["target_of"]


def target_of(deployment: Deployment, path: Path) -> Target:
    """The target of the deployment in the file `path`; folders are taken relative to it. Nothing is started.

    Raises:
        UserError: a model, a program or a knob table that isn't there, or a knob that the engine doesn't have.
    """
    spec, folder = deployment.target, path.resolve().parent
    if isinstance(spec, BundledSpec):
        return BundledTarget(_model(deployment.model, folder), device=deployment.device)
    if isinstance(spec, ExternalSpec):
        return ExternalTarget(spec, deployment.model, deployment.config, folder)
    return ServerTarget(_driver(deployment, spec, folder), Placement.of(spec.cpus, spec.numa_node))


def _driver(deployment: Deployment, spec: ServerSpec | CommandSpec, folder: Path) -> Driver:
    names = frozenset(deployment.config)
    if isinstance(spec, CommandSpec):
        from tools.targets.command import CommandDriver

        return CommandDriver(_model(deployment.model, folder, files=True), spec, names, folder)
    if spec.kind == "llamacpp":
        from tools.targets.drivers.llamacpp import LlamaCpp

        return LlamaCpp(_gguf(deployment.model, folder), spec, names)
    if spec.kind == "vllm":
        from tools.targets.drivers.vllm import Vllm

        return Vllm(_model(deployment.model, folder), spec, names, deployment.device)
    from tools.targets.drivers.sglang import SgLang

    return SgLang(_model(deployment.model, folder), spec, names, deployment.device)


def _model(name: str, folder: Path, *, files: bool = False) -> Path:
    """A folder beside the deployment, or the one that `models pull` makes; with `files` a single file too."""
    local = folder / Path(name).expanduser()
    return local if local.is_dir() or (files and local.is_file()) else pull(name)


def _gguf(name: str, folder: Path) -> Path:
    local = folder / Path(name).expanduser()
    if not local.is_file() or local.suffix != ".gguf":
        found = "a folder" if local.is_dir() else "no such file" if not local.exists() else f"a {local.suffix} file"
        raise UserError(f"model: llama.cpp serves a .gguf file, expected the path of one, found {found}: {name}")
    return local
