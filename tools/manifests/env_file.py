"""Files of `NAME=value` lines: Compose's env_file, systemd's EnvironmentFile=, a shell's `.env`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from tools.manifests.part import Implied
from tools.manifests.programs import engine_of_name, find_program
from tools.manifests.shell_part import ShellPart
from tools.manifests.shell_words import UnclosedQuote, Word, read_word
from tools.manifests.site import Chunk, CommandSite
from tools.manifests.splice import CannotEdit, Splice
from tools.manifests.view import View
from tools.targets.engine_name import EngineName

__all__ = ["env_file_sites", "is_env_file"]

_LINE = re.compile(
    r"[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|[^\r\n]*)"
    r"(?P<rest>[^\r\n]*)"
)
_COMMENT = re.compile(r"[ \t]+#.*$")
_VARIABLE = re.compile(r"(\$\{[^}]*\}|\$[A-Za-z_][A-Za-z0-9_]*)")
_PROGRAMS: dict[EngineName, tuple[str, ...]] = {"vllm": ("vllm", "serve"), "llamacpp": ("llama-server",)}


@dataclass(frozen=True)
class _Line:
    name: str
    value: View
    start: int
    end: int
    "The whole line, its break included."


def is_env_file(text: str) -> bool:
    """Whether every line is empty, a comment or `NAME=value`, and there is one of the last."""
    lines = [line.strip() for line in text.splitlines()]
    filled = [line for line in lines if line and not line.startswith(("#", ";"))]
    return bool(filled) and all(re.match(r"(?:export[ \t]+)?[A-Za-z_][A-Za-z0-9_]*=", line) for line in filled)


@dataclass(frozen=True)
class FileVariables:
    """All lines of the file; a later one of a name holds."""

    view: View
    lines: tuple[_Line, ...]

    @cached_property
    def _last(self) -> Mapping[str, _Line]:
        return {line.name: line for line in self.lines}

    @cached_property
    def values(self) -> Mapping[str, str]:
        return {
            name: line.value.text
            for name, line in self._last.items()
            if not line.value.is_foreign(0, len(line.value.text))
        }

    @cached_property
    def opaque(self) -> Mapping[str, str]:
        return {name: "another variable" for name in self._last if name not in self.values}

    def changed(self, changes: Mapping[str, str | None]) -> list[Splice]:
        return [self._changed(name, value) for name, value in changes.items()]

    def _changed(self, name: str, value: str | None) -> Splice:
        line, text = self._last.get(name), self.view.text
        if line is None:
            if value is None:
                raise CannotEdit(f"no variable {name} stands here")
            end = "\r\n" if "\r\n" in text else "\n"
            at = self.lines[-1].end if self.lines else len(text)
            written = f"{name}={value if re.fullmatch(r'[^ #$]*', value) else _double_quoted(value)}"
            broken = at == 0 or text[:at].endswith("\n")
            return self.view.splice(at, at, written + end if broken else end + written)
        if name not in self.values:
            raise CannotEdit(f"the value of the variable {name} comes from another one; write it out first")
        if value is None:
            return self.view.splice(line.start, line.end, "")
        return line.value.splice(0, len(line.value.text), value)

    def extents(self) -> list[tuple[int, int]]:
        return [(line.start, line.end) for line in self.lines]


def env_file_sites(name: str, view: View) -> Iterator[CommandSite]:
    """One site for the variables themselves, where the file's or their names speak of an engine, and one for each
    variable that holds an engine's command or arguments."""
    lines = tuple(_lines(view))
    hint = engine_of_name(name) or next((found for line in lines if (found := _engine(line.name))), None)
    holders: set[str] = set()
    for line in lines:
        engine = _engine(line.name) or hint
        try:
            part = ShellPart(line.value, tuple(_words(line.value)), "sh")
        except UnclosedQuote:
            continue
        chunks: tuple[Chunk, ...]
        if program := find_program(part.words):
            chunks, own, engine = (Chunk(part, program.at, len(part.words)),), program.size, program.engine
        elif part.words and part.words[0].startswith("--") and engine in _PROGRAMS:
            implied = Implied(_PROGRAMS[engine], "the file holds arguments only")
            chunks, own = (Chunk(implied, 0, len(implied.words)), Chunk(part, 0, len(part.words))), len(implied.words)
        else:
            continue
        holders.add(line.name)
        words = tuple(word for chunk in chunks for word in chunk.words)
        shift = len(words) - len(part.words)
        computed = frozenset(at + shift for at in part.computed)
        variables = FileVariables(view, tuple(other for other in lines if other is not line))
        yield CommandSite(
            line.name, engine, words, own, variables.values, variables.opaque, computed, "", (), chunks, variables
        )
    if hint is not None:
        variables = FileVariables(view, tuple(line for line in lines if line.name not in holders))
        yield CommandSite(
            "variables", hint, (), 0, variables.values, variables.opaque, frozenset(), "", (), (), variables
        )


def _engine(name: str) -> EngineName | None:
    return "llamacpp" if name.startswith("LLAMA_ARG_") else engine_of_name(name)


def _lines(view: View) -> Iterator[_Line]:
    at = 0
    while at < len(view.text):
        found = view.text.find("\n", at)
        after = len(view.text) if found < 0 else found + 1
        if (match := _LINE.match(view.text, at, after)) and not view.text[at:after].lstrip().startswith("#"):
            yield _Line(match["name"], _value(view, match), at, after)
        at = after


def _value(view: View, match: re.Match[str]) -> View:
    start, end = match.span("value")
    raw = match["value"]
    if raw[:1] == "'":
        return view.part(start + 1, end - 1)
    if raw[:1] == '"' and len(raw) > 1:
        inside = list(re.compile(r"\\[\"\\$`]|.").finditer(view.text, start + 1, end - 1))
        text = "".join(one[0][-1] for one in inside)
        starts, ends = [one.start() for one in inside], [one.end() for one in inside]
        return view.inner(text, starts, ends, lambda new: _double_quoted(new)[1:-1], start + 1).marked(_VARIABLE)
    comment = _COMMENT.search(raw)
    stop = start + len(raw[: comment.start()] if comment else raw.rstrip())
    return view.part(start, max(start, stop)).marked(_VARIABLE)


def _double_quoted(text: str) -> str:
    return '"' + re.sub(r"([\"\\$`])", r"\\\1", text) + '"'


def _words(view: View) -> Iterator[Word]:
    at = 0
    while at < len(view.text):
        if view.text[at].isspace():
            at += 1
            continue
        word = read_word(view.text, at, "sh")
        if word.end == at:
            return
        yield word
        at = word.end
