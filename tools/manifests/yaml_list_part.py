"""ListPart: words that are the items of a YAML list, in block (`- a`) or flow (`[a, b]`) style."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import yaml

from tools.manifests.expansion import Expansion
from tools.manifests.part import Insertable, is_flag, nearest
from tools.manifests.splice import CannotEdit, Splice
from tools.manifests.view import View
from tools.manifests.yaml_scalar import is_plain_string, write_scalar

__all__ = ["ListPart", "write_word"]

_PLAIN_WORD = re.compile(r"-{0,2}[A-Za-z_/][A-Za-z0-9_./@=+-]*")
_TEXT = "tag:yaml.org,2002:str"


@dataclass(frozen=True)
class ListPart:
    """The items of `node`, all scalars; `view` is what it was composed from and `items` are the views of the items."""

    view: View
    node: yaml.SequenceNode
    items: tuple[View, ...]
    expansion: Expansion

    @property
    def insertable(self) -> Insertable:
        return "anywhere"

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(item.text for item in self.items)

    @cached_property
    def computed(self) -> frozenset[int]:
        return frozenset(place for place, item in enumerate(self.items) if item.is_foreign(0, len(item.text)))

    def view_of(self, at: int) -> View | None:
        return self.items[at]

    def replaced(self, at: int, word: str) -> Splice:
        node = self._nodes[at]
        if node.style in ("|", ">") or self.items[at].locked:
            raise CannotEdit(self.items[at].locked or f"{self.words[at]!r} must be a list item on one line")
        start, end = node.start_mark.index, node.end_mark.index
        return self.view.splice(start, end, write_word(self.expansion.escape(word), node))

    def deleted(self, at: int, count: int) -> list[Splice]:
        if self.node.flow_style:
            return self._flow_deleted(at, count)
        if count == len(self.items):
            raise CannotEdit("nothing would be left of this list, which YAML reads as no list; take it out by hand")
        to_the_end = self.view.text.find("\n", self._line(at + count - 1)[2]) < 0
        return [self._block_deleted(place, to_the_end) for place in range(at, at + count)]

    def inserted(self, at: int, words: tuple[str, ...], going: int) -> list[Splice]:
        return [self._flow_inserted(at, words, going) if self.node.flow_style else self._block_inserted(at, words)]

    def extents(self) -> list[tuple[int, int]]:
        start, end = self.node.start_mark.index, self.node.end_mark.index
        return [(self.view.starts[start], self.view.ends[end - 1])]

    @property
    def _nodes(self) -> list[yaml.ScalarNode]:
        return list(self.node.value)

    def _written(self, at: int, word: str) -> str:
        like = nearest(self.words, at, is_flag(word))
        if like is None:
            like = nearest(self.words, at, not is_flag(word))
        return write_word(self.expansion.escape(word), self._nodes[like] if like is not None else None, new=True)

    # Block style: an item is a line, or some.

    def _line(self, at: int) -> tuple[int, int, int]:
        """Where the line of item `at` starts, where its `-` stands, and where its last line ends (break excluded)."""
        text, node = self.view.text, self._nodes[at]
        dash = text.rfind("-", 0, node.start_mark.index)
        start = text.rfind("\n", 0, dash) + 1
        if text[start:dash].strip() or text[dash + 1 : node.start_mark.index].strip():
            raise CannotEdit("this list shares its lines with something else; give each item a line of its own")
        end = node.end_mark.index
        if node.style in ("|", ">"):
            return start, dash, len(text[:end].rstrip("\r\n"))
        found = text.find("\n", end)
        found = len(text) if found < 0 else found
        return start, dash, found - text[:found].endswith("\r")

    def _block_inserted(self, at: int, words: tuple[str, ...]) -> Splice:
        start, dash, end = self._line(max(at - 1, 0))
        text = self.view.text
        lead = text[start:dash] + text[dash : self._nodes[max(at - 1, 0)].start_mark.index].split("\n")[0]
        lead = lead if lead.endswith((" ", "\t")) else lead + " "
        lines = [lead + self._written(at, word) for word in words]
        if at == 0:
            return self.view.splice(start, start, "".join(line + self._break for line in lines))
        return self.view.splice(end, end, "".join(self._break + line for line in lines))

    def _block_deleted(self, at: int, break_before: bool) -> Splice:
        """The item's line goes with its break, or with the one before it if the text ends here; a comment stays."""
        start, dash, end = self._line(at)
        text, node = self.view.text, self._nodes[at]
        tail = text[node.end_mark.index : end]
        if node.style not in ("|", ">") and tail.lstrip().startswith("#"):
            return self.view.splice(dash, node.end_mark.index + len(tail) - len(tail.lstrip()), "")
        if break_before:
            return self.view.splice(max(0, start - len(self._break)), end, "")
        return self.view.splice(start, text.find("\n", end) + 1, "")

    @property
    def _break(self) -> str:
        return "\r\n" if "\r\n" in self.view.text else "\n"

    # Flow style: items stand between commas.

    def _gap(self, at: int) -> str:
        return self.view.text[self._nodes[at - 1].end_mark.index : self._nodes[at].start_mark.index]

    def _separator(self, at: int, flag: bool) -> str:
        """The comma and what follows it, as it stands before a flag (or a value) near here."""
        like = nearest(self.words, at, flag, 1)
        gap = self._gap(like) if like is not None else ", "
        return gap if re.fullmatch(r",\s*", gap) else ", "

    def _flow_inserted(self, at: int, words: tuple[str, ...], going: int) -> Splice:
        if not self.items:
            here = self.node.start_mark.index + 1
            return self.view.splice(here, here, ", ".join(self._written(0, word) for word in words))
        if at == 0:
            here = self._nodes[0].start_mark.index
            return self.view.splice(here, here, "".join(self._written(0, word) + ", " for word in words))
        here = self._nodes[at - 1].end_mark.index
        written = "".join(self._separator(at, is_flag(word)) + self._written(at, word) for word in words)
        line_end = re.compile(r",[ \t]*(?:#[^\n]*?)?(?=\r?\n)").match(self.view.text, here)
        if line_end and "\n" in self._separator(at, is_flag(words[0])):
            # A line of its own, behind the comment on the line before.
            line = self.view.splice(line_end.end(), line_end.end(), written.removeprefix(",") + ",")
            if not going or line.start <= self._flow_deleted(at, going)[0].start:
                return line
        return self.view.splice(here, here, written)

    def _flow_deleted(self, at: int, count: int) -> list[Splice]:
        """The items go with the lines that are theirs alone, else with the comma before them, else with that behind."""
        splices: list[Splice] = []
        first = at
        for place in range(at, at + count):
            if place + 1 == at + count or not re.fullmatch(r"\s*,\s*", self._gap(place + 1)):
                splices.append(self._run_gone(first, place, first == at))
                first = place + 1
        return splices

    def _run_gone(self, first: int, last: int, behind_kept: bool) -> Splice:
        """Items with no comment between them."""
        text, nodes = self.view.text, self._nodes
        start, end = nodes[first].start_mark.index, nodes[last].end_mark.index
        comma = re.compile(r"\s*,[ \t]*").match(text, end)
        behind = comma.end() if comma else end
        line = text.rfind("\n", 0, start) + 1
        alone = None if text[line:start].strip() else re.compile(r"\r?\n").match(text, behind)
        if alone:
            return self.view.splice(line, alone.end(), "")
        if behind_kept and first > 0 and re.fullmatch(r"\s*,\s*", self._gap(first)):
            return self.view.splice(nodes[first - 1].end_mark.index, end, "")
        return self.view.splice(start, behind, "")


def write_word(word: str, like: yaml.ScalarNode | None, new: bool = False) -> str:
    """`word` as one YAML text, in the quotes of `like`; if it has none and they are needed, in those that read better.

    A `new` word has no quotes of its own to keep, so that JSON comes in single ones.
    """
    style = (like.style or "") if like is not None else '"'
    better = "'" if '"' in word and "'" not in word else '"'
    if style in ("'", '"') and new and better == "'":
        style = better
    if style in ("'", '"'):
        return write_scalar(word, style)
    was_text = like is None or like.tag == _TEXT
    if was_text and _PLAIN_WORD.fullmatch(word) and is_plain_string(word):
        return word
    if not was_text and re.fullmatch(r"[0-9]+(\.[0-9]+)?|true|false", word):
        return word
    return write_scalar(word, better)
