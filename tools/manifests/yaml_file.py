"""YamlFile: a YAML mapping read without surprises and edited by splicing scalars, so that all else stays as it was."""

from __future__ import annotations

import copy
import difflib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from tools.canonical import canonical_json
from tools.errors import UserError
from tools.manifests.yaml_scalar import read_plain, write_scalar
from tools.targets.knobs import Value

__all__ = ["KeyPath", "YamlFile", "parse_data"]

KeyPath = tuple[str, ...]
"""Keys from the top of the document down to a value: `("config", "max_num_seqs")`."""

_MAX_BYTES = 1 << 20
_MAX_DEPTH = 32
_FAST_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)|[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+")
_MARK = re.compile(r"[ \t]+#(?:.*[ \t]#)?[ \t]*autotune[ \t]*:[ \t]*(?P<word>[^\s#]+)[ \t]*$")


@dataclass(frozen=True)
class YamlFile:
    """One YAML document whose top is a mapping. `text` is the file as it stands, line ends included."""

    path: Path
    text: str
    data: dict[str, Any]
    managed: frozenset[KeyPath]
    "Keys whose line ends with the comment `# autotune: managed`."

    @classmethod
    def read(cls, path: Path) -> YamlFile:
        """Read and check `path`.

        Raises:
            UserError: no such file, not UTF-8, not one YAML mapping; a duplicate key, an anchor, alias or tag; a scalar
                that YAML 1.1 and 1.2 read differently; a mark that belongs to no value. The message names the line.
        """
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise UserError(f"{path}: expected a YAML file, found none that can be read: {error.strerror}") from None
        if len(raw) > _MAX_BYTES:
            raise UserError(f"{path}: expected at most {_MAX_BYTES} bytes of YAML, found {len(raw)}")
        try:
            return cls.parse(path, raw.decode())
        except UnicodeDecodeError as error:
            raise UserError(f"{path}: expected UTF-8, found byte 0x{raw[error.start]:02x} at {error.start}") from None

    @classmethod
    def parse(cls, path: Path, text: str) -> YamlFile:
        """`text` checked as `read` does; `path` is only named in messages."""
        root = _compose(path, text)
        data: dict[str, Any] = _construct(path, root)
        return cls(path, text, data, _managed(path, text, root))

    @cached_property
    def _scalars(self) -> dict[KeyPath, yaml.ScalarNode]:
        return dict(_scalar_values(_compose(self.path, self.text)))

    def splice(self, changes: Mapping[KeyPath, Value]) -> str:
        """The file's text with each key's value replaced: only the characters of those scalars differ.

        Raises:
            UserError: an unknown or unmanaged key, a value that isn't a scalar of one line, or, for whatever reason,
                a result that means anything but the planned change.
        """
        text = self.text
        for key, value in sorted(changes.items(), key=lambda change: -self._node(change[0]).start_mark.index):
            node = self._node(key)
            start, end = node.start_mark.index, node.end_mark.index
            quote = node.style or ""
            written = write_scalar(value, quote if isinstance(value, str) else "")
            text = text[:start] + (" " if start == end else "") + written + text[end:]
        self._require_only(changes, text)
        return text

    def _node(self, key: KeyPath) -> yaml.ScalarNode:
        name = ".".join(key)
        node = self._scalars.get(key)
        if node is None:
            near = difflib.get_close_matches(name, [".".join(known) for known in self._scalars], n=1)
            hint = f"did you mean {near[0]}?" if near else "add it by hand first"
            raise UserError(f"{self.path}: no value stands at {name}; {hint}")
        if key not in self.managed:
            raise UserError(
                f"{self.path}, line {node.start_mark.line + 1}: {name} isn't managed, so it is never changed; "
                "end its line with `# autotune: managed` to allow that"
            )
        if node.style in ("|", ">") or node.start_mark.line != node.end_mark.line:
            raise UserError(f"{self.path}, line {node.start_mark.line + 1}: {name} must be a value on one line")
        return node

    def _require_only(self, changes: Mapping[KeyPath, Value], text: str) -> None:
        planned: dict[str, Any] = copy.deepcopy(self.data)
        for key, value in changes.items():
            parent = planned
            for name in key[:-1]:
                parent = parent[name]
            parent[key[-1]] = value
        result = YamlFile.parse(self.path, text)
        if canonical_json(result.data) != canonical_json(planned) or result.managed != self.managed:
            raise UserError(f"{self.path}: the edit would change more than the planned keys; nothing was written")


def parse_data(path: Path, text: str) -> dict[str, Any]:
    """The mapping in `text`, of any size, by the rules of YamlFile, but only to be read; `path` is only named.

    Unlike there, numbers with an exponent (`5e-05`, as Python writes them) are numbers: YAML 1.1 takes some of them for
    texts, which nobody means.

    Raises:
        UserError: as `YamlFile.parse`, but for the marks.
    """
    data: dict[str, Any] = _construct(path, _compose(path, text, _FAST_LOADER), _read_number_or_plain)
    return data


def _read_number_or_plain(node: yaml.ScalarNode) -> Value | None:
    # Numbers first: the lengths of a log are hundreds of thousands of scalars.
    text: str = node.value
    if _WHOLE.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        if math.isfinite(number := float(text)):
            return number
        raise ValueError(f"{text} is larger than any number of 64 bits")
    return read_plain(node)


def _compose(path: Path, text: str, loader: Any = yaml.SafeLoader) -> yaml.MappingNode:
    """The one document's node tree, once the event stream is known to hold nothing that we refuse."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
                raise _refusal(path, event, "anchors and aliases are not supported", "write the value out")
            if (tag := getattr(event, "tag", None)) is not None:
                raise _refusal(path, event, f"the tag {tag} is not supported", "remove it")
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > _MAX_DEPTH:
                raise _refusal(path, event, f"nested deeper than {_MAX_DEPTH} levels", "flatten it")
        root = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise UserError(f"{path}, line {line}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML: {error}") from None
    if not isinstance(root, yaml.MappingNode):
        raise UserError(f"{path}: expected `key: value` lines, found {'nothing' if root is None else 'something else'}")
    return root


def _construct(path: Path, node: yaml.Node, read: Callable[[yaml.ScalarNode], Value | None] = read_plain) -> Any:
    """Plain data, as safe_load would give, except that nothing is guessed."""
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = _construct(path, key_node, read)
            if not isinstance(key, str):
                raise _refusal(path, key_node, f"expected a text as key, found {key!r}", "quote it")
            if key in mapping:
                raise _refusal(path, key_node, f"the key {key} stands here a second time", "remove one of the two")
            mapping[key] = _construct(path, value_node, read)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [_construct(path, item, read) for item in node.value]
    assert isinstance(node, yaml.ScalarNode)
    if node.style:  # the C loader has "" for plain scalars, the other None
        return node.value
    try:
        return read(node)
    except ValueError as error:
        raise _refusal(path, node, str(error), "quote it, or write the plain number or true/false you mean") from None


def _scalar_values(node: yaml.Node, at: KeyPath = ()) -> Iterator[tuple[KeyPath, yaml.ScalarNode]]:
    """Every scalar that is reached through mappings alone, with its key path."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _scalar_values(value, (*at, key.value))
    elif isinstance(node, yaml.ScalarNode):
        yield at, node


def _managed(path: Path, text: str, root: yaml.MappingNode) -> frozenset[KeyPath]:
    lines = _lines(text)
    marks = {number: match["word"] for number, line in enumerate(lines) if (match := _MARK.search(" " + line))}
    keys: set[KeyPath] = set()
    for key, node in _scalar_values(root):
        for inner in range(node.start_mark.line, node.end_mark.line):
            marks.pop(inner, None)  # inside a text of many lines there are no comments
        number = node.end_mark.line
        if number in marks and _MARK.match(_lines(text[node.end_mark.index :])[0]):
            if (word := marks.pop(number)) != "managed":
                raise UserError(
                    f"{path}, line {number + 1}: expected `# autotune: managed`, found `# autotune: {word}`"
                )
            keys.add(key)
    for number in marks:
        if re.fullmatch(r"\s*#[ \t]*autotune[ \t]*:.*", lines[number]) or not lines[number].lstrip().startswith("#"):
            raise UserError(
                f"{path}, line {number + 1}: the mark `# autotune:` belongs to no value here; "
                "put it behind a value, on the line of its key"
            )
    return frozenset(keys)


def _lines(text: str) -> list[str]:
    """Lines as PyYAML counts them, without their ends."""
    return re.split("\r\n|[\n\r\x85\u2028\u2029]", text)


def _refusal(path: Path, where: yaml.Event | yaml.Node, found: str, remedy: str) -> UserError:
    place = f", line {where.start_mark.line + 1}" if where.start_mark else ""
    return UserError(f"{path}{place}: {found}; {remedy}")
