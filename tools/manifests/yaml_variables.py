"""Environment variables as YAML has them: a mapping, a list of `NAME=value`, or a list of names and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import yaml

from tools.manifests.expansion import Expansion
from tools.manifests.splice import CannotEdit, Splice
from tools.manifests.view import View
from tools.manifests.yaml_list_part import write_word
from tools.manifests.yaml_text import YamlText, entries, scalar_text

__all__ = ["NoVariables", "YamlVariables"]

_ELSEWHERE = "its value comes from elsewhere, so it isn't known and never changed; change it there"


@dataclass(frozen=True)
class NoVariables:
    """A place without an environment of its own; `why` says where one could be written."""

    why: str

    @property
    def values(self) -> Mapping[str, str]:
        return {}

    @property
    def opaque(self) -> Mapping[str, str]:
        return {}

    def changed(self, changes: Mapping[str, str | None]) -> list[Splice]:
        if not changes:
            return []
        raise CannotEdit(f"there is no place for the variable {next(iter(changes))}: {self.why}")

    def extents(self) -> list[tuple[int, int]]:
        return []


@dataclass(frozen=True)
class _Entry:
    name: str
    value: View | None
    "None: the value comes from elsewhere."
    node: yaml.Node
    "What is written for the value; for `NAME=value`, the whole item."
    item: yaml.Node
    "Where the entry starts: its key, or its item of the list."


@dataclass(frozen=True)
class YamlVariables:
    """The variables of `node`."""

    text: YamlText
    node: yaml.CollectionNode
    expansion: Expansion
    owners: tuple[yaml.Node, ...] = ()

    @cached_property
    def _entries(self) -> dict[str, _Entry]:
        return {entry.name: entry for entry in self._read()}

    def _read(self) -> Iterator[_Entry]:
        if isinstance(self.node, yaml.MappingNode):
            keys = {key.value: key for key, _ in self.node.value if isinstance(key, yaml.ScalarNode)}
            for name, value in entries(self.node):
                yield _Entry(name, self._view(value), value, keys.get(name, value))
            return
        for item in self.node.value:
            if isinstance(item, yaml.ScalarNode):
                view = self._view(item)
                name, equals, _ = view.text.partition("=") if view is not None else ("", "", "")
                yield _Entry(name, view.part(len(name) + 1, len(view.text)) if view and equals else None, item, item)
            elif (name_text := scalar_text(self.text.get(item, "name"))) is not None:
                value_node = self.text.get(item, "value")
                yield _Entry(name_text, self._view(value_node, item), value_node or item, item)

    def _view(self, node: yaml.Node | None, *owners: yaml.Node) -> View | None:
        """None: nothing is written there, so the value comes from elsewhere."""
        if not isinstance(node, yaml.ScalarNode) or node.tag == "tag:yaml.org,2002:null":
            return None
        return self.expansion.read(self.text.scalar(node, self.node, *self.owners, *owners))

    @cached_property
    def values(self) -> Mapping[str, str]:
        return {
            name: entry.value.text
            for name, entry in self._entries.items()
            if entry.value is not None and not entry.value.is_foreign(0, len(entry.value.text))
        }

    @cached_property
    def opaque(self) -> Mapping[str, str]:
        sources = {"valueFrom": "a Secret, a ConfigMap or the pod (valueFrom)"}
        return {
            name: next((why for key, why in sources.items() if self.text.get(entry.item, key)), "where it is started")
            for name, entry in self._entries.items()
            if name not in self.values
        }

    def extents(self) -> list[tuple[int, int]]:
        start, end = self.node.start_mark.index, self.node.end_mark.index
        return [(self.text.view.starts[start], self.text.view.ends[end - 1])]

    def changed(self, changes: Mapping[str, str | None]) -> list[Splice]:
        return [self._change(name, value) for name, value in changes.items()]

    def _change(self, name: str, value: str | None) -> Splice:
        entry = self._entries.get(name)
        view = self.text.locked(self.node, *self.owners)
        if entry is None:
            if value is None:
                raise CannotEdit(f"no variable {name} stands here")
            return self._added(view, name, value)
        if entry.value is None or name not in self.values:
            raise CannotEdit(f"the variable {name} can't be edited: {_ELSEWHERE}")
        if value is None:
            return self._removed(view, entry)
        if isinstance(entry.node, yaml.ScalarNode) and entry.node is not entry.item:
            if entry.node.style in ("|", ">") or entry.value.locked:
                raise CannotEdit(entry.value.locked or f"the variable {name} must have a value on one line")
            start, end = entry.node.start_mark.index, entry.node.end_mark.index
            return view.splice(start, end, write_word(self.expansion.escape(value), entry.node))
        return entry.value.splice(0, len(entry.value.text), value)

    def _removed(self, view: View, entry: _Entry) -> Splice:
        if len(self.node.value) == 1:
            raise CannotEdit(f"{entry.name} is the only variable here; take the whole environment out by hand")
        if self.node.flow_style:
            raise CannotEdit("write these variables on a line each first, so that one can be taken out")
        start, end = entry.item.start_mark.index, max(entry.node.end_mark.index, entry.item.end_mark.index)
        text = view.text
        end = len(text[:end].rstrip())
        line_start = text.rfind("\n", 0, start) + 1
        found = text.find("\n", end)
        line_end = len(text) if found < 0 else found + 1
        if text[line_start:start].strip(" \t-") or text[end:line_end].strip() or "#" in text[start:end]:
            raise CannotEdit(f"the lines of the variable {entry.name} hold something else too; take it out by hand")
        if found < 0:  # the text ends here, so the break before goes
            line_start -= text[:line_start].endswith("\n") + text[:line_start].endswith("\r\n")
        return view.splice(line_start, line_end, "")

    def _added(self, view: View, name: str, value: str) -> Splice:
        """The last entry's lines once more, with the new name and value."""
        if self.node.flow_style or not self.node.value:
            raise CannotEdit(
                f"there is no place for the variable {name}; write one variable on a line of its own first"
            )
        text = view.text
        last = self.node.value[-1]
        first_node = last[0] if isinstance(last, tuple) else last
        end_node = last[1] if isinstance(last, tuple) else last
        start = text.rfind("\n", 0, first_node.start_mark.index) + 1
        lead = text[start : first_node.start_mark.index]
        if lead.strip(" \t-"):
            raise CannotEdit(
                f"there is no place for the variable {name}; write one variable on a line of its own first"
            )
        end = len(text[: end_node.end_mark.index].rstrip())
        found = text.find("\n", end)
        end = len(text) if found < 0 else found
        end -= text[:end].endswith("\r")
        line = "\r\n" if "\r\n" in text else "\n"
        like = self._like(end_node)
        written = write_word(self.expansion.escape(value), like)
        if isinstance(self.node, yaml.MappingNode):
            new = f"{lead}{name}: {written}"
        elif isinstance(last, yaml.ScalarNode):
            new = lead + write_word(f"{name}={self.expansion.escape(value)}", last)
        else:
            new = f"{lead}name: {name}{line}{lead.replace('-', ' ')}value: {written}"
        return view.splice(end, end, line + new)

    def _like(self, node: yaml.Node) -> yaml.ScalarNode | None:
        value = self.text.get(node, "value") if isinstance(node, yaml.MappingNode) else node
        quoted = isinstance(value, yaml.ScalarNode) and value.style in ("'", '"')
        return value if quoted and isinstance(value, yaml.ScalarNode) else None
