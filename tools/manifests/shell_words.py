"""Words of a command line as a POSIX shell, Compose or systemd splits them, each with its characters' places."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tools.manifests.view import View

__all__ = ["Dialect", "UnclosedQuote", "Word", "quoted", "read_word", "word_view"]

Dialect = Literal["sh", "compose", "systemd"]
"""Who splits: a shell; Compose, for a command that is one text; systemd, for ExecStart= and Environment=."""

_RUN = {
    "sh": re.compile(r"[^\s'\"\\$`|&;<>()]+"),
    "compose": re.compile(r"[^\s'\"\\]+"),
    "systemd": re.compile(r"[^\s'\"\\$%]+"),
}
_SIMPLE = re.compile(r"([A-Za-z0-9_@+=:,./-]+)(?=[ \t\n]|$)")
"""A word that every dialect takes as it stands."""

_QUOTED_RUN = re.compile(r"[^'\"\\$`%]+")
_VARIABLE = re.compile(r"\$(?:\{[^}]*\}|[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_C_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}
_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_SAFE_FOR = {"sh": _SAFE, "compose": _SAFE, "systemd": re.compile(r"[A-Za-z0-9_@+=:,./-]+")}


class UnclosedQuote(ValueError):
    """A quote or bracket that opens at `at` and never closes."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(f"{what} opens here and never closes")
        self.at = at


@dataclass(frozen=True, slots=True)
class Word:
    """One word: `value` as the program gets it; where it is `computed`, with the variables unexpanded."""

    value: str
    start: int
    end: int
    computed: bool
    starts: Sequence[int]
    "Where each character of `value` begins in the text."
    ends: Sequence[int]


@dataclass
class _Building:
    text: str
    at: int
    chars: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    computed: bool = False

    def run(self, end: int, quote: bool) -> None:
        """All characters up to `end` as they stand."""
        span = range(self.at, end)
        self.chars.extend(self.text[self.at : end])
        self.bare.extend("\0" * len(span) if quote else self.text[self.at : end])
        self.starts.extend(span)
        self.ends.extend(range(self.at + 1, end + 1))
        self.at = end

    def char(self, char: str, width: int) -> None:
        """One character that is written as the next `width`."""
        self.chars.append(char)
        self.bare.append("\0")
        self.starts.append(self.at)
        self.ends.append(self.at + width)
        self.at += width

    def foreign(self, end: int) -> None:
        """A variable or a command's output, up to `end`."""
        self.run(end, quote=True)
        self.computed = True


def read_word(text: str, start: int, dialect: Dialect) -> Word:
    """The word that begins at `start`, where no white space, comment or operator stands.

    Raises:
        UnclosedQuote: its quote or bracket never closes.
    """
    if simple := _SIMPLE.match(text, start):
        end = simple.end()
        return Word(simple[1], start, end, False, range(start, end), range(start + 1, end + 1))
    word = _Building(text, start)
    run = _RUN[dialect]
    while word.at < len(text):
        if match := run.match(text, word.at):
            word.run(match.end(), quote=False)
            continue
        char = text[word.at]
        if char == "\\":
            _escape(word, dialect, in_double=False)
        elif char == "'" or (char == '"' and dialect != "sh"):
            _quoted(word, char, dialect)
        elif char == '"':
            _double_quoted_in_shell(word)
        elif char in "$`%" and (dialect != "compose"):
            _expansion(word, dialect)
        else:
            break
    bare = "".join(word.bare)
    if dialect == "sh" and (set("*?[") & set(bare) or bare.startswith("~") or _BRACES.search(bare)):
        word.computed = True
    return Word("".join(word.chars), start, word.at, word.computed, word.starts, word.ends)


def _escape(word: _Building, dialect: Dialect, in_double: bool) -> None:
    following = word.text[word.at + 1 : word.at + 2]
    if not following:
        word.run(word.at + 1, quote=True)
    elif dialect == "systemd":
        hexadecimal = re.compile(r"\\x([0-9A-Fa-f]{2})").match(word.text, word.at)
        if hexadecimal:
            word.char(chr(int(hexadecimal[1], 16)), 4)
        else:
            word.char(_C_ESCAPES.get(following, following), 2)
    elif following == "\n" and dialect == "sh":
        word.at += 2
    elif in_double and dialect == "sh" and following not in '$`"\\':
        word.run(word.at + 1, quote=True)
    else:
        word.char(following, 2)


def _quoted(word: _Building, quote: str, dialect: Dialect) -> None:
    opened = word.at
    word.at += 1
    while word.at < len(word.text):
        if match := _QUOTED_RUN.match(word.text, word.at):
            word.run(match.end(), quote=True)
            continue
        char = word.text[word.at]
        if char == quote:
            word.at += 1
            return
        if char == "\\" and (dialect == "systemd" or quote == '"'):
            _escape(word, dialect, in_double=True)
        elif char in "$%" and dialect == "systemd":
            _expansion(word, dialect)
        else:
            word.run(word.at + 1, quote=True)
    raise UnclosedQuote(f"a quote {quote}", opened)


def _double_quoted_in_shell(word: _Building) -> None:
    opened = word.at
    word.at += 1
    while word.at < len(word.text):
        if match := _QUOTED_RUN.match(word.text, word.at):
            word.run(match.end(), quote=True)
            continue
        char = word.text[word.at]
        if char == '"':
            word.at += 1
            return
        if char == "\\":
            _escape(word, "sh", in_double=True)
        elif char in "$`":
            _expansion(word, "sh")
        else:
            word.run(word.at + 1, quote=True)
    raise UnclosedQuote('a quote "', opened)


def _expansion(word: _Building, dialect: Dialect) -> None:
    text, at = word.text, word.at
    if dialect == "systemd" and text[at : at + 2] in ("$$", "%%"):
        word.char(text[at], 2)
    elif text[at] == "%":
        word.foreign(min(at + 2, len(text)))
    elif text[at] == "`":
        word.foreign(_after(text, "`", at + 1, at))
    elif text.startswith("$(", at) and dialect == "sh":
        word.foreign(_closing(text, at))
    elif text.startswith("${", at) and dialect == "sh":
        word.foreign(_after(text, "}", at + 2, at))
    elif text.startswith("$'", at) and dialect == "sh":
        word.foreign(_after(text, "'", at + 2, at))
    elif match := _VARIABLE.match(text, at):
        word.foreign(match.end())
    else:
        word.run(at + 1, quote=True)


def _after(text: str, closing: str, at: int, opened: int) -> int:
    found = text.find(closing, at)
    if found < 0:
        raise UnclosedQuote(text[opened : opened + 2], opened)
    return found + 1


def _closing(text: str, opened: int) -> int:
    """Behind the bracket that closes the `$(` at `opened`; brackets in its quotes don't count."""
    depth, at = 0, opened + 1
    while at < len(text):
        char = text[at]
        if char == "'":
            at = _after(text, "'", at + 1, at) - 1
        elif char == "\\":
            at += 1
        depth += {"(": 1, ")": -1}.get(char, 0)
        at += 1
        if depth == 0:
            return at
    raise UnclosedQuote("$(", opened)


def quoted(value: str, dialect: Dialect, like: str = "") -> str:
    """`value` as one word of `dialect`: in the quotes of `like` (a word as it stands), else bare where that is safe."""
    wanted = like[0] if len(like) > 1 and like[0] in "'\"" and like[-1] == like[0] else ""
    if not wanted and _SAFE_FOR[dialect].fullmatch(value):
        return value
    if dialect == "systemd":
        value = re.sub(r"([\\\"'])" if wanted != "'" else r"([\\'])", r"\\\1", value)
        value = value.replace("$", "$$").replace("%", "%%").replace("\n", "\\n").replace("\t", "\\t")
        return f"'{value}'" if wanted == "'" else f'"{value}"'
    single = "'" + value.replace("'", "'\\''") + "'"
    if wanted == '"' or (dialect == "compose" and "'" in value):
        return '"' + re.sub(r"([$`\"\\])" if dialect == "sh" else r"([\"\\])", r"\\\1", value) + '"'
    return single


def word_view(view: View, word: Word, dialect: Dialect) -> View:
    """What stands in one word, for a reader of its own (`sh -c '...'`)."""
    raw = view.text[word.start : word.end]
    inner = view.inner(word.value, word.starts, word.ends, _encoder(raw, dialect), word.start)
    if not _one_quote(raw):
        return inner.locked_because("this command stands in a word of mixed quotes; put one pair of quotes around it")
    return inner


def _one_quote(raw: str) -> bool:
    if len(raw) < 2 or raw[0] not in "'\"" or raw[-1] != raw[0]:
        return False
    return raw[0] not in re.sub(r"\\.", "", raw[1:-1]) if raw[0] == '"' else "'" not in raw[1:-1]


def _encoder(raw: str, dialect: Dialect) -> Callable[[str], str]:
    return lambda text: quoted(text, dialect, raw)[1:-1]
