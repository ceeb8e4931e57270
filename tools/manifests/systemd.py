"""systemd units and drop-ins: `ExecStart=` with its continuations, `Environment=` and `EnvironmentFile=`.

Source of the rules: systemd.syntax(7) and systemd.service(5), "Command lines".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools.errors import UserError
from tools.manifests.find import Surroundings, find_sites
from tools.manifests.shell_part import ShellPart
from tools.manifests.shell_variables import Assignment, assignments
from tools.manifests.shell_words import UnclosedQuote, Word, quoted, read_word
from tools.manifests.site import CommandSite
from tools.manifests.splice import CannotEdit, Splice
from tools.manifests.view import View

__all__ = ["systemd_sites"]

_SECTION = re.compile(r"\[([^\]\r\n]+)\][ \t]*\r?")
_SETTING = re.compile(r"[ \t]*([A-Za-z0-9_-]+)[ \t]*=[ \t]*")


@dataclass(frozen=True)
class _Setting:
    section: str
    key: str
    view: View
    "The value: continuations read as blanks, comment lines between them left out."
    start: int
    "Where its first line starts in the file."


@dataclass(frozen=True)
class UnitVariables:
    """`Environment=` of the unit; a later one of a name holds."""

    text: str
    found: tuple[Assignment, ...]
    at: int
    "Where a line with a new variable goes."

    @cached_property
    def _last(self) -> Mapping[str, Assignment]:
        return {found.name: found for found in self.found}

    @cached_property
    def values(self) -> Mapping[str, str]:
        return {name: found.value for name, found in self._last.items() if found.value is not None}

    @cached_property
    def opaque(self) -> Mapping[str, str]:
        return {name: "a specifier (%)" for name in self._last if name not in self.values}

    def changed(self, changes: Mapping[str, str | None]) -> list[Splice]:
        return [splice for name, value in changes.items() for splice in self._changed(name, value)]

    def _changed(self, name: str, value: str | None) -> list[Splice]:
        found = self._last.get(name)
        if found is None:
            if value is None:
                raise CannotEdit(f"no variable {name} stands here")
            line = f"Environment={quoted(f'{name}={value}', 'systemd')}"
            return [Splice(self.at, self.at, line + ("\r\n" if "\r\n" in self.text else "\n"))]
        if found.value is None:
            raise CannotEdit(f"the value of the variable {name} comes from a specifier; write it out first")
        if value is not None:
            return [found.replaced(value)]
        if len(found.part.spans) > 1:
            return found.part.deleted(found.at, 1)
        (start, _), (_, end) = found.part.extents()[0], found.part.extents()[-1]
        line_start = self.text.rfind("\n", 0, start) + 1
        line_end = self.text.find("\n", end)
        return [Splice(line_start, len(self.text) if line_end < 0 else line_end + 1, "")]

    def extents(self) -> list[tuple[int, int]]:
        """Whole lines, since one may come and go."""
        lines = []
        for found in self.found:
            (start, _), (_, end) = found.part.extents()[0], found.part.extents()[-1]
            line_end = self.text.find("\n", end)
            lines.append((self.text.rfind("\n", 0, start) + 1, len(self.text) if line_end < 0 else line_end + 1))
        return lines


def systemd_sites(path: Path, view: View) -> Iterator[CommandSite]:
    """The engines' commands among the unit's `ExecStart=`.

    Raises:
        UserError: a command whose quotes don't close.
    """
    settings = [setting for setting in _settings(view) if setting.section == "Service"]
    try:
        variables = _variables(view, settings)
        files = tuple(setting.view.text for setting in settings if setting.key == "EnvironmentFile")
        for setting in settings:
            if setting.key == "ExecStart" and setting.view.text.strip():
                part = ShellPart(setting.view, tuple(_words(setting.view, command=True)), "systemd")
                yield from find_sites([part], Surroundings("[Service] ExecStart", variables, files=files))
    except UnclosedQuote as error:
        raise UserError(f"{path}: {error}, in a value of [Service]; close it") from None


def _variables(view: View, settings: list[_Setting]) -> UnitVariables:
    found: list[Assignment] = []
    at = next((setting.start for setting in settings if setting.key == "ExecStart"), 0)
    for setting in settings:
        if setting.key == "Environment":
            part = ShellPart(setting.view, tuple(_words(setting.view)), "systemd")
            if not part.spans:  # an empty one forgets all before it
                found.clear()
            found += assignments(part, len(part.spans))
            line_end = view.text.find("\n", setting.view.ends[-1]) if setting.view.text else -1
            at = line_end + 1 if line_end >= 0 else at
    return UnitVariables(view.text, tuple(found), at)


def _words(view: View, command: bool = False) -> Iterator[Word]:
    at = 0
    if command:
        prefix = re.match(r"[ \t]*[@\-:+!|]*", view.text)
        at = prefix.end() if prefix else 0
    while at < len(view.text):
        if view.text[at].isspace():
            at += 1
            continue
        word = read_word(view.text, at, "systemd")
        if command and view.text[word.start : word.end] == ";":
            return
        yield word
        at = word.end


def _settings(view: View) -> Iterator[_Setting]:
    """All settings of the unit, in order."""
    section, at, text = "", 0, view.text
    while at < len(text):
        end, after = _line(text, at)
        line = text[at:end]
        if line.lstrip().startswith(("#", ";")) or not line.strip():
            at = after
        elif match := _SECTION.fullmatch(line):
            section, at = match[1], after
        elif match := _SETTING.match(text, at, end):
            starts, ends, after = _value(text, match.end(), at)
            chars = "".join(
                " " if text[start] in "\\\r\n" and end - start > 1 else text[start]
                for start, end in zip(starts, ends, strict=True)
            )
            yield _Setting(section, match[1], view.inner(chars, starts, ends, _on_one_line, match.end()), at)
            at = after
        else:
            at = after


def _value(text: str, at: int, start: int) -> tuple[list[int], list[int], int]:
    """The characters of a value that starts at `at`, a continuation being one; and where the next line starts."""
    starts, ends = list[int](), list[int]()
    while True:
        end, after = _line(text, at)
        stripped = len(text[at:end].rstrip()) + at
        if not text[at:stripped].endswith("\\"):
            starts.extend(range(at, stripped))
            ends.extend(range(at + 1, stripped + 1))
            return starts, ends, after
        starts.extend(range(at, stripped - 1))
        ends.extend(range(at + 1, stripped))
        starts.append(stripped - 1)
        ends.append(after)
        at = after
        while at < len(text):
            end, after = _line(text, at)
            if not text[at:end].lstrip().startswith(("#", ";")):
                break
            ends[-1] = at = after
        if at >= len(text):
            return starts, ends, at


def _line(text: str, at: int) -> tuple[int, int]:
    """Where the line at `at` ends (break excluded), and where the next starts."""
    found = text.find("\n", at)
    if found < 0:
        return len(text), len(text)
    return found - (found > at and text[found - 1] == "\r"), found + 1


def _on_one_line(text: str) -> str:
    return text.replace("\n", " ")
