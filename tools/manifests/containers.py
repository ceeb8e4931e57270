"""Containers with commands in Kubernetes objects, kustomize patches and Helm values, wherever they are nested."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tools.manifests.expansion import KUBERNETES
from tools.manifests.find import Surroundings, find_sites
from tools.manifests.part import Implied, Part, Variables
from tools.manifests.production_stack import stack_sites
from tools.manifests.site import CommandSite
from tools.manifests.yaml_list_part import ListPart
from tools.manifests.yaml_text import YamlText, entries, scalar_text
from tools.manifests.yaml_variables import NoVariables, YamlVariables

__all__ = ["container_sites", "kustomization_sites", "list_part"]

_ENVIRONMENTS = ("env", "extraEnv", "extraEnvVars", "environment")
_MODEL_COMMANDS = {"vllmServe": ("vllm", "serve")}
"""llm-d's charts name a command by a word."""


@dataclass(frozen=True)
class _Found:
    path: str
    node: yaml.MappingNode
    owners: tuple[yaml.Node, ...]


def container_sites(text: YamlText, prefix: str = "") -> Iterator[CommandSite]:
    """The sites in all documents of `text`; `prefix` goes before each place."""
    for document in text.documents:
        kind, name = scalar_text(text.get(document, "kind")), scalar_text(text.get(document, "metadata", "name"))
        place = f"{prefix}{kind}/{name} " if kind else prefix
        if isinstance(document, yaml.SequenceNode):
            yield from _json_patch(text, document, place)
        for found in _walk(document):
            yield from _container(text, found, place, bool(kind))


def kustomization_sites(path: Path, text: YamlText) -> Iterator[CommandSite]:
    """The sites in the patches that a kustomization holds as texts."""
    for document in text.documents:
        patches = text.get(document, "patches")
        if not isinstance(patches, yaml.SequenceNode):
            continue
        for number, patch in enumerate(patches.value):
            node = text.get(patch, "patch")
            if isinstance(node, yaml.ScalarNode):
                inner = YamlText.read(path, text.scalar(node, document, patches, patch))
                target = scalar_text(text.get(patch, "target", "name")) or ""
                yield from container_sites(inner, f"patches[{number}] {target} ".replace("  ", " "))


def list_part(text: YamlText, node: yaml.Node | None, *owners: yaml.Node) -> ListPart | None:
    """The words in a list of plain values; None for anything else."""
    if not isinstance(node, yaml.SequenceNode) or not all(isinstance(item, yaml.ScalarNode) for item in node.value):
        return None
    items = tuple(KUBERNETES.read(text.scalar(item, node, *owners)) for item in node.value)
    return ListPart(text.locked(node, *owners, *node.value), node, items, KUBERNETES)


def _walk(root: yaml.Node) -> Iterator[_Found]:
    """All mappings under `root`, each once however often it is aliased, in the order of the file."""
    seen: set[int] = set()
    waiting: list[tuple[str, yaml.Node, tuple[yaml.Node, ...]]] = [("", root, ())]
    while waiting:
        path, node, owners = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        below = (*owners, node)
        if isinstance(node, yaml.MappingNode):
            yield _Found(path, node, owners)
            children = [(f"{path}.{key}" if path else key, value, below) for key, value in entries(node)]
        elif isinstance(node, yaml.SequenceNode):
            children = [(f"{path}[{number}]", item, below) for number, item in enumerate(node.value)]
        else:
            children = []
        waiting.extend(reversed(children))


def _container(text: YamlText, found: _Found, place: str, of_kubernetes: bool) -> Iterator[CommandSite]:
    node, owners = found.node, (*found.owners, found.node)
    command, arguments = text.get(node, "command"), text.get(node, "args")
    if scalar_text(text.get(node, "modelURL")) is not None and isinstance(text.get(node, "repository"), yaml.Node):
        yield from stack_sites(text, node, owners, f"{place}{found.path}")
        return
    image, name = _image(text, node), scalar_text(text.get(node, "name")) or ""
    if (command is None and arguments is None) or not (image or name or not of_kubernetes):
        return
    parts: list[Part] = [part for part in (list_part(text, one, *owners) for one in (command, arguments)) if part]
    model_command = _MODEL_COMMANDS.get(scalar_text(text.get(node, "modelCommand")) or "")
    if model_command:
        parts.insert(0, Implied((*model_command, "{{ modelArtifacts }}"), "the chart writes it", frozenset({2})))
    path = found.path if not of_kubernetes else ".".join(found.path.split(".")[-1:])
    around = Surroundings(
        where=f"{place}{path}.{'command' if arguments is None else 'args'}".replace(" .", " "),
        variables=_environment(text, node, owners),
        image=image,
        starts_itself=command is None,
        name=name,
        files=tuple(_files(text, node)),
    )
    yield from find_sites(parts, around)


def _image(text: YamlText, node: yaml.MappingNode) -> str:
    image = text.get(node, "image")
    if isinstance(image, yaml.ScalarNode):
        return str(image.value)
    holder = image if isinstance(image, yaml.MappingNode) else node
    repository, tag = (scalar_text(text.get(holder, key)) for key in ("repository", "tag"))
    return f"{repository}:{tag}" if repository and tag else repository or ""


def _environment(text: YamlText, node: yaml.MappingNode, owners: tuple[yaml.Node, ...]) -> Variables:
    for key in _ENVIRONMENTS:
        found = text.get(node, key)
        if isinstance(found, yaml.CollectionNode) and found.value:
            return YamlVariables(text, found, KUBERNETES, owners)
    return NoVariables("write an `env:` with one variable into this container first")


def _files(text: YamlText, node: yaml.MappingNode) -> Iterator[str]:
    sources = text.get(node, "envFrom")
    for source in sources.value if isinstance(sources, yaml.SequenceNode) else ():
        for key, value in entries(source):
            yield f"{key} {scalar_text(text.get(value, 'name')) or ''}".strip()


def _json_patch(text: YamlText, document: yaml.SequenceNode, place: str) -> Iterator[CommandSite]:
    """Operations of RFC 6902 that set all arguments at once; one that adds a single word is no command."""
    for number, operation in enumerate(document.value):
        path = scalar_text(text.get(operation, "path")) or ""
        part = list_part(text, text.get(operation, "value"), document, operation)
        if part is not None and path.endswith(("/args", "/command")):
            why = NoVariables("a patch of arguments has no variables")
            around = Surroundings(
                f"{place}[{number}].value", why, starts_itself=path.endswith("/args"), name=f"{place} {path}"
            )
            yield from find_sites([part], around)
