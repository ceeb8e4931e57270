"""Services of a Compose file: `command` and `entrypoint` as a text or a list, `environment` as a mapping or a list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from tools.errors import UserError
from tools.manifests.expansion import COMPOSE
from tools.manifests.find import Surroundings, find_sites
from tools.manifests.part import Part, Variables
from tools.manifests.shell_part import ShellPart
from tools.manifests.shell_words import UnclosedQuote, Word, read_word
from tools.manifests.site import CommandSite
from tools.manifests.view import View
from tools.manifests.yaml_list_part import ListPart
from tools.manifests.yaml_text import YamlText, entries, scalar_text
from tools.manifests.yaml_variables import NoVariables, YamlVariables

__all__ = ["compose_sites"]


def compose_sites(path: Path, text: YamlText) -> Iterator[CommandSite]:
    """The sites in all services.

    Raises:
        UserError: a command whose quotes don't close.
    """
    for document in text.documents:
        services = text.get(document, "services")
        for name, service in entries(services):
            if isinstance(service, yaml.MappingNode) and isinstance(services, yaml.MappingNode):
                yield from _service(path, text, name, service, (document, services, service))


def _service(
    path: Path, text: YamlText, name: str, service: yaml.MappingNode, owners: tuple[yaml.Node, ...]
) -> Iterator[CommandSite]:
    command, entry = text.get(service, "command"), text.get(service, "entrypoint")
    parts = [part for part in (_part(path, text, node, owners) for node in (entry, command)) if part]
    if parts:
        around = Surroundings(
            where=f"services.{name}.{'entrypoint' if command is None else 'command'}",
            variables=_environment(text, service, owners),
            image=scalar_text(text.get(service, "image")) or "",
            starts_itself=entry is None,
            name=name,
            files=tuple(_files(text, text.get(service, "env_file"))),
        )
        yield from find_sites(parts, around)


def _part(path: Path, text: YamlText, node: yaml.Node | None, owners: tuple[yaml.Node, ...]) -> Part | None:
    if isinstance(node, yaml.SequenceNode) and all(isinstance(item, yaml.ScalarNode) for item in node.value):
        items = tuple(COMPOSE.read(text.scalar(item, node, *owners)) for item in node.value)
        return ListPart(text.locked(node, *owners, *node.value), node, items, COMPOSE)
    if not isinstance(node, yaml.ScalarNode) or node.tag.endswith(":null"):
        return None
    view = COMPOSE.read(text.scalar(node, *owners))
    try:
        return ShellPart(view, tuple(_words(view)), "compose")
    except UnclosedQuote as error:
        line = node.start_mark.line + 1
        raise UserError(f"{path}, line {line}: {error} in this command; close it") from None


def _words(view: View) -> Iterator[Word]:
    at = 0
    while at < len(view.text):
        if view.text[at].isspace():
            at += 1
            continue
        word = read_word(view.text, at, "compose")
        yield word
        at = word.end


def _environment(text: YamlText, service: yaml.MappingNode, owners: tuple[yaml.Node, ...]) -> Variables:
    found = text.get(service, "environment")
    if isinstance(found, yaml.CollectionNode) and found.value:
        return YamlVariables(text, found, COMPOSE, owners)
    return NoVariables("write an `environment:` with one variable into this service first")


def _files(text: YamlText, node: yaml.Node | None) -> Iterator[str]:
    if isinstance(node, yaml.ScalarNode):
        yield str(node.value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield scalar_text(item) or scalar_text(text.get(item, "path")) or "?"
