"""YamlText: documents with anchors, merges and comments as people have them, each value with its place in the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tools.errors import UserError
from tools.manifests.view import View
from tools.manifests.yaml_scalar_view import scalar_view

__all__ = ["YamlText", "entries", "scalar_text"]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_DEPTH = 64
_SHARED = (
    "this value is shared through a YAML anchor, so an edit would change other places too; write it out here first"
)


@dataclass(frozen=True)
class YamlText:
    """The documents of a text. Nodes are PyYAML's, with marks that count in `view.text`."""

    view: View
    documents: tuple[yaml.Node, ...]
    shared: frozenset[int]
    "ids of the nodes that are reached in more than one way."

    @classmethod
    def read(cls, path: Path, view: View) -> YamlText:
        """Compose all documents of `view.text`; `path` is only named in messages.

        Raises:
            UserError: not YAML, or nested deeper than 64 levels; the message names the line.
        """
        try:
            depth = 0
            for event in yaml.parse(view.text, Loader=_LOADER):
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                if depth > _MAX_DEPTH:
                    line = event.start_mark.line + 1 if event.start_mark else "?"
                    raise UserError(f"{path}, line {line}: nested deeper than {_MAX_DEPTH} levels; flatten it")
            documents = tuple(node for node in yaml.compose_all(view.text, Loader=_LOADER) if node is not None)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else "?"
            hint = _template_hint(view.text)
            raise UserError(f"{path}, line {line}: not valid YAML: {error.problem or error.context}{hint}") from None
        except yaml.YAMLError as error:
            raise UserError(f"{path}: not valid YAML: {error}{_template_hint(view.text)}") from None
        return cls(view, documents, _shared(documents))

    def get(self, node: yaml.Node | None, *keys: str) -> yaml.Node | None:
        """The value that stands at `keys`, merges (`<<`) followed; None: no such key, or no mapping."""
        for key in keys:
            if not isinstance(node, yaml.MappingNode):
                return None
            own = (value for name, value in reversed(node.value) if name.value == key)
            merged = any(name.value == "<<" for name, _ in node.value)
            node = next(own, None) or (dict(entries(node)).get(key) if merged else None)
        return node

    def scalar(self, node: yaml.ScalarNode, *owners: yaml.Node) -> View:
        """The view of a scalar; locked if it or one of its `owners` is shared."""
        view = scalar_view(self.view, node)
        return view.locked_because(_SHARED) if self.is_shared(node, *owners) else view

    def is_shared(self, *nodes: yaml.Node) -> bool:
        return any(id(node) in self.shared for node in nodes)

    def locked(self, *nodes: yaml.Node) -> View:
        """The whole text's view; locked if one of `nodes` is shared."""
        return self.view.locked_because(_SHARED) if self.is_shared(*nodes) else self.view


def entries(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    """Keys and values of a mapping, those merged into it first, so that its own come later and win."""
    if not isinstance(node, yaml.MappingNode):
        return
    own: list[tuple[str, yaml.Node]] = []
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        if key.value == "<<" and key.tag == "tag:yaml.org,2002:merge":
            merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for base in reversed(merged):
                yield from entries(base) if base is not node else ()
        else:
            own.append((key.value, value))
    yield from own


def scalar_text(node: yaml.Node | None) -> str | None:
    """The text of a scalar; None for anything else."""
    return node.value if isinstance(node, yaml.ScalarNode) else None


def _template_hint(text: str) -> str:
    if "{{" not in text:
        return ""
    return "; this looks like a template: name the file with the values that fill it, or what it renders"


def _shared(documents: tuple[yaml.Node, ...]) -> frozenset[int]:
    """Nodes that are reached more than once, with all that stands below them."""
    seen: set[int] = set()
    twice: list[yaml.Node] = []
    waiting = list(documents)
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            twice.append(node)
        else:
            seen.add(id(node))
            waiting.extend(_children(node))
    shared: set[int] = set()
    while twice:
        node = twice.pop()
        if id(node) not in shared:
            shared.add(id(node))
            twice.extend(_children(node))
    return frozenset(shared)


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from (key, value)
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value
