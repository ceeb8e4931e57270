"""Variables that a shell command gets: assignments in front of it, `export` before it, `-e` of `docker run`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tools.manifests.part import Variables
from tools.manifests.shell_part import ShellPart
from tools.manifests.shell_words import quoted
from tools.manifests.splice import CannotEdit, Splice

__all__ = ["Assignment", "Layered", "ShellVariables", "assignments", "docker_variables"]

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_DOCKER_ENV = re.compile(r"(?:-e|--env)(?:=(?=.))?")


@dataclass(frozen=True)
class Assignment:
    """`NAME=value` in word `at` of `part`, behind `skipped` characters (`--env=`) and `flags` words (`-e`)."""

    name: str
    part: ShellPart
    at: int
    skipped: int = 0
    flags: int = 0
    branch: bool = False
    "It stands in a block of the script, so whether it holds isn't known."

    @cached_property
    def value(self) -> str | None:
        """None: it comes from elsewhere."""
        word = self.part.spans[self.at].value[self.skipped :]
        known = "=" in word and self.at not in self.part.computed and not self.branch
        return word[len(self.name) + 1 :] if known else None

    def replaced(self, value: str) -> Splice:
        part, span = self.part, self.part.spans[self.at]
        kept = span.value[: self.skipped] + self.name + "="
        raw = part.view.text[span.start : span.end]
        if not raw.startswith(kept):  # the whole of it is quoted: -e "NAME=value"
            return part.view.splice(span.start, span.end, quoted(kept + value, part.dialect, raw))
        here = span.start + len(kept)
        return part.view.splice(here, span.end, quoted(value, part.dialect, raw[len(kept) :]) if value else "''")

    def deleted(self) -> list[Splice]:
        if self.flags or self.skipped:
            return self.part.deleted(self.at - self.flags, self.flags + 1)
        span = self.part.spans[self.at]
        if self.at + 1 < len(self.part.spans):
            return [self.part.view.splice(span.start, self.part.spans[self.at + 1].start, "")]
        return [_line_gone(self.part, self.name)]


def _line_gone(part: ShellPart, name: str) -> Splice:
    """A command that sets one variable and nothing else goes with its line, if that holds no more."""
    text, start, end = part.view.text, part.spans[0].start, part.spans[-1].end
    line = text.rfind("\n", 0, start) + 1
    found = text.find("\n", end)
    after = len(text) if found < 0 else found + 1
    rest = text[end:after]
    if len(part.spans) > 2 or text[line:start].strip() or rest.split("#")[0].strip():
        raise CannotEdit(f"the line that sets {name} holds something else too; take it out by hand")
    if "#" in rest:
        return part.view.splice(start, end + rest.index("#"), "")
    return part.view.splice(line, after, "")


def assignments(part: ShellPart, stop: int, branch: bool = False) -> Iterator[Assignment]:
    """Those among the first `stop` words of a command."""
    for at, word in enumerate(part.words[:stop]):
        if match := _ASSIGNMENT.match(word):
            yield Assignment(match[1], part, at, branch=branch)


def docker_variables(part: ShellPart, start: int, stop: int) -> Iterator[Assignment]:
    """`-e NAME=value` and its like between words `start` and `stop`; `-e NAME` is one from elsewhere."""
    at = start
    while at < stop:
        match = _DOCKER_ENV.fullmatch(part.words[at])
        joined = re.match(r"--env=|-e(?=[A-Za-z_])", part.words[at])
        if match and at + 1 < stop:
            at += 1
            yield Assignment(part.words[at].partition("=")[0], part, at, flags=1)
        elif joined:
            yield Assignment(part.words[at][joined.end() :].partition("=")[0], part, at, skipped=joined.end())
        at += 1


@dataclass(frozen=True)
class ShellVariables:
    """`found` in order: the last of a name holds. New ones go before word `at`, behind `flag` if there is one."""

    part: ShellPart
    found: Sequence[Assignment]
    at: int | None
    flag: str = ""

    @cached_property
    def _last(self) -> Mapping[str, Assignment]:
        last = {found.name: found for found in self.found}
        branched = {found.name: found for found in self.found if found.branch}
        return {**last, **branched}

    @cached_property
    def values(self) -> Mapping[str, str]:
        return {name: found.value for name, found in self._last.items() if found.value is not None}

    @cached_property
    def opaque(self) -> Mapping[str, str]:
        return {name: "another variable, or a branch of the script" for name in self._last if name not in self.values}

    def changed(self, changes: Mapping[str, str | None]) -> list[Splice]:
        splices: list[Splice] = []
        for name, value in changes.items():
            found = self._last.get(name)
            if found is None and value is None:
                raise CannotEdit(f"no variable {name} stands here")
            if found is None:
                splices += self._added(name, value or "")
            elif found.value is None:
                raise CannotEdit(f"the value of the variable {name} comes from elsewhere; change it there")
            else:
                splices += [found.replaced(value)] if value is not None else found.deleted()
        return splices

    def _added(self, name: str, value: str) -> list[Splice]:
        if self.at is None or not self.part.spans:
            raise CannotEdit(f"there is no place for the variable {name} at this command")
        if self.flag:
            behind = [found.at + 1 for found in self.found]
            return self.part.inserted(max([self.at, *behind]), (self.flag, f"{name}={value}"), going=0)
        here = self.part.spans[self.at].start
        return [self.part.view.splice(here, here, f"{name}={quoted(value, self.part.dialect) if value else ''} ")]

    def extents(self) -> list[tuple[int, int]]:
        return [extent for part in (self.part, *(found.part for found in self.found)) for extent in part.extents()]


@dataclass(frozen=True)
class Layered:
    """Variables of several places; a later one's hold. A new one goes to the first place that takes it."""

    layers: tuple[Variables, ...]

    @cached_property
    def values(self) -> Mapping[str, str]:
        values: dict[str, str] = {}
        for layer in self.layers:
            values = {name: value for name, value in values.items() if name not in layer.opaque} | dict(layer.values)
        return values

    @cached_property
    def opaque(self) -> Mapping[str, str]:
        found = {name: why for layer in self.layers for name, why in layer.opaque.items()}
        return {name: why for name, why in found.items() if name not in self.values}

    def changed(self, changes: Mapping[str, str | None]) -> list[Splice]:
        return [splice for name, value in changes.items() for splice in self._changed(name, value)]

    def _changed(self, name: str, value: str | None) -> list[Splice]:
        for layer in reversed(self.layers):
            if name in layer.values or name in layer.opaque:
                return layer.changed({name: value})
        refused: list[str] = []
        for layer in self.layers:
            try:
                return layer.changed({name: value})
            except CannotEdit as error:
                refused.append(str(error))
        raise CannotEdit(refused[0] if refused else f"there is no place for the variable {name}")

    def extents(self) -> list[tuple[int, int]]:
        return [extent for layer in self.layers for extent in layer.extents()]
