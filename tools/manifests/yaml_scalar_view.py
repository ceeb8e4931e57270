"""What a YAML scalar says, with the way back to its characters: unquoted, unescaped, unfolded."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import yaml

from tools.manifests.splice import CannotEdit
from tools.manifests.view import View
from tools.manifests.yaml_scalar import write_scalar

__all__ = ["scalar_view"]

_PROPERTIES = re.compile(r"(?:[&!][^\s,\[\]{}]*\s+)+")
_ESCAPES = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "\t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    " ": " ",
    '"': '"',
    "/": "/",
    "\\": "\\",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}
_WIDTHS = {"x": 2, "u": 4, "U": 8}
_BREAK = re.compile(r"[ \t]*\r?\n(?:[ \t]*\r?\n)*[ \t]*")


@dataclass
class _Decoded:
    chars: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def add(self, chars: str, start: int, end: int) -> None:
        """`chars` decoded from `start` to `end`: the first stands for all of it."""
        for number, char in enumerate(chars):
            self.chars.append(char)
            self.starts.append(start if number == 0 else end)
            self.ends.append(end)

    def copy(self, text: str, start: int, end: int) -> None:
        self.chars.extend(text[start:end])
        self.starts.extend(range(start, end))
        self.ends.extend(range(start + 1, end + 1))


def scalar_view(view: View, node: yaml.ScalarNode) -> View:
    """The text of `node`, which was composed from `view.text`.

    Where our decoding isn't what YAML's reader says, the view can be read and not edited.
    """
    text, start, end = view.text, node.start_mark.index, node.end_mark.index
    if properties := _PROPERTIES.match(text, start, end):
        start = properties.end()
    style = node.style or ""
    if style in ("|", ">"):
        decoded, indent = _block(text, start, end, style)
        inner = view.inner("".join(decoded.chars), decoded.starts, decoded.ends, _block_encoder(style, indent), start)
    else:
        encode = {"'": _single, '"': _double}.get(style, _plain)
        if text[start + len(style) : end - len(style)] == node.value and "\n" not in node.value:
            return view.part(start + len(style), end - len(style), encode)
        decoded = _flow(text, start + len(style), end - len(style), style)
        inner = view.inner("".join(decoded.chars), decoded.starts, decoded.ends, encode, start + len(style))
    if inner.text == node.value:
        return inner
    value = node.value
    unknown = View(view.file, value, [0] * len(value), [0] * len(value), 0, foreign=inner.foreign)
    return unknown.locked_because("this YAML text is written in a way that can't be edited; write it on one line")


def _plain(text: str) -> str:
    if "\n" in text or ": " in text or " #" in text:
        raise CannotEdit(f"{text} can't stand in a YAML text without quotes; put the whole text into quotes first")
    return text


def _single(text: str) -> str:
    if not text.isprintable():
        return _plain(text)
    return text.replace("'", "''")


def _double(text: str) -> str:
    return write_scalar(text, '"')[1:-1]


def _block_encoder(style: str, indent: str) -> Callable[[str], str]:
    def encode(text: str) -> str:
        if style == ">" and "\n" in text:
            raise CannotEdit("a new line can't be written into a folded YAML text; make it a literal one (`|`)")
        return text.replace("\n", "\n" + indent)

    return encode


def _flow(text: str, at: int, end: int, style: str) -> _Decoded:
    decoded = _Decoded()
    while at < end:
        char = text[at]
        if style == '"' and char == "\\":
            at = _escape(text, at, decoded)
        elif style == "'" and char == "'":
            decoded.add("'", at, at + 2)
            at += 2
        elif char in " \t\r\n" and (fold := _BREAK.match(text, at, end)):
            breaks = fold[0].count("\n")
            decoded.add("\n" * (breaks - 1) or " ", at, fold.end())
            at = fold.end()
        else:
            decoded.copy(text, at, at + 1)
            at += 1
    return decoded


def _escape(text: str, at: int, decoded: _Decoded) -> int:
    """The escape at `at` decoded; behind it."""
    kind = text[at + 1]
    if kind in "\r\n":
        end = re.compile(r"\\\r?\n[ \t]*").match(text, at)
        return end.end() if end else at + 2
    if width := _WIDTHS.get(kind):
        decoded.add(chr(int(text[at + 2 : at + 2 + width], 16)), at, at + 2 + width)
        return at + 2 + width
    decoded.add(_ESCAPES.get(kind, kind), at, at + 2)
    return at + 2


def _block(text: str, start: int, end: int, style: str) -> tuple[_Decoded, str]:
    """A literal or folded text; a line's break stands for the next line's indentation too."""
    header_end = text.find("\n", start, end) + 1
    decoded = _Decoded()
    if not header_end:
        return decoded, ""
    header = text[start:header_end]
    chomp = "-" if "-" in header.split("#")[0] else "+" if "+" in header.split("#")[0] else ""
    lines = _lines(text, header_end, end)
    first = next((text[a:b] for a, b, _ in lines if text[a:b].strip(" ")), "")
    indent = len(first) - len(first.lstrip(" "))
    contents = [(min(a + indent, b), b, after) for a, b, after in lines]
    while contents and contents[-1][0] == contents[-1][1] and chomp != "+":
        contents.pop()
    for number, (a, b, after) in enumerate(contents):
        decoded.copy(text, a, b)
        following = contents[number + 1] if number + 1 < len(contents) else None
        upto = following[0] if following else after
        if following is None:
            if chomp != "-" and after > b:
                decoded.add("\n", b, upto)
        elif style == "|" or not _folds(text, contents, number):
            decoded.add("\n", b, upto)
        elif a < b and following[0] < following[1]:
            decoded.add(" ", b, upto)
        elif a == b:
            decoded.add("\n", b, upto)
    return decoded, " " * indent


def _folds(text: str, contents: list[tuple[int, int, int]], number: int) -> bool:
    """Whether the break behind line `number` belongs to a fold: normal lines on both sides of it and of blank lines."""
    before = next((line for line in reversed(contents[: number + 1]) if line[0] < line[1]), None)
    after = next((line for line in contents[number + 1 :] if line[0] < line[1]), None)
    return all(line is not None and text[line[0]] not in " \t" for line in (before, after))


def _lines(text: str, at: int, end: int) -> list[tuple[int, int, int]]:
    """Each line's start, its end without the break, and the start of the next."""
    lines: list[tuple[int, int, int]] = []
    while at < end:
        found = text.find("\n", at, end)
        after = found + 1 if found >= 0 else end
        stop = found if found >= 0 else end
        lines.append((at, stop - 1 if found > at and text[found - 1] == "\r" else stop, after))
        at = after
    return lines
