"""JSON objects on a command line: one flag whose members are several knobs, whole or with dotted keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tools.targets.knobs import KnobError, Value
from tools.targets.tables.json_words import dump_like, member, parse_object, with_member, without_member
from tools.targets.tables.row import KnobRow
from tools.targets.tables.said import Said
from tools.targets.tables.value_word import is_unexpanded, value_of_json
from tools.targets.tables.word_edit import Delete, Replace, WordEdit

__all__ = ["FlagObject"]


@dataclass(frozen=True)
class FlagObject:
    """What `words` say of one flag that takes an object. Members with dotted keys win over a whole object."""

    flag: str
    rows: tuple[KnobRow, ...]
    words: Sequence[str]
    said: tuple[Said, ...]

    @cached_property
    def _dotted(self) -> tuple[Said, ...]:
        dotted = tuple(each for each in self.said if each.key)
        spellings = {self.words[each.at].partition(".")[0] for each in dotted}
        if len(spellings) > 1:
            raise KnobError(f"{' and '.join(sorted(spellings))} are one flag, of which the engine reads the last only")
        return dotted

    @cached_property
    def _whole(self) -> Said | None:
        return None if self._dotted or not self.said else self.said[-1]

    @cached_property
    def _object(self) -> Mapping[str, Any]:
        """All that is known of the object; empty where nothing is."""
        if self._whole is not None:
            return {} if self._whole.unexpanded else parse_object(self.flag, self._whole.value)
        found: dict[str, Any] = {}
        for each in self._dotted:
            if not each.unexpanded:
                found = with_member(found, each.key, _read(each.value))
        return found

    @cached_property
    def values(self) -> dict[str, Value]:
        """The value of each knob that is a member.

        Raises:
            KnobError: no object, or a member that its knob can't take.
        """
        members = {row.name: (row, member(self._object, row.key)) for row in self.rows}
        return {name: value_of_json(row, found) for name, (row, found) in members.items() if found is not None}

    def remaining(self) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """What is left of the flag without its knobs, as (place, number of words, words instead)."""
        knobs = [row for row in self.rows if row.name in self.values]
        for each in self.said:
            if each is self._whole and knobs:
                rest = self._without(self._object, knobs)
                yield each.at, each.count, self._rewritten(each, rest) if rest else ()
            elif each.key and any(row.key == each.key and row.name in self.values for row in knobs):
                yield each.at, each.count, ()

    def change(self, changes: Mapping[str, Value | None]) -> Iterator[WordEdit | tuple[str, ...]]:
        """The edits after which each knob of `changes` has that value, and none where it is None; words alone are to
        be added.

        Raises:
            KnobError: the value comes from somewhere else, or from inside a member that is written as a whole.
        """
        rows = {row.name: row for row in self.rows}
        if any(value is not None and rows[name].is_silent(value) for name, value in changes.items()):
            yield from (Delete(each.at, each.count) for each in self.said)
        elif self._dotted:
            for name, value in changes.items():
                yield from self._change_dotted(rows[name], value)
        elif self._whole is not None:
            yield from self._change_whole(self._whole, [(rows[name], value) for name, value in changes.items()])
        elif wanted := [(rows[name], value) for name, value in changes.items() if value is not None]:
            yield self.flag, json.dumps(self._with({}, wanted))

    def _change_whole(self, said: Said, changes: Sequence[tuple[KnobRow, Value | None]]) -> Iterator[WordEdit]:
        if said.unexpanded:
            raise KnobError(f"{self.flag} is said by {said.value!r}, which is filled in elsewhere; change it there")
        gone = [row for row, value in changes if value is None and member(self._object, row.key) is not None]
        wanted = [(row, value) for row, value in changes if value is not None and self._value(row) != value]
        if not gone and not wanted:
            return
        new = self._with(self._without(self._object, gone), wanted)
        if new:
            at = said.at + said.count - 1
            yield Replace(at, self._rewritten(said, new)[-1])
        else:
            yield from (Delete(each.at, each.count) for each in self.said)

    def _change_dotted(self, row: KnobRow, value: Value | None) -> Iterator[WordEdit | tuple[str, ...]]:
        own = [each for each in self._dotted if each.key == row.key]
        if not own and member(self._object, row.key) is not None:
            raise KnobError(f"knob {row.name} stands inside another member of {self.flag}; give it a key of its own")
        if own and is_unexpanded(own[-1].value):
            raise KnobError(f"knob {row.name} is said by {own[-1].value!r}, which is filled in elsewhere")
        if value is None:
            yield from (Delete(each.at, each.count) for each in own)
        elif not own:
            first = self.words[self._dotted[0].at].partition(".")[0]
            yield f"{first}.{row.key}", _text(value)
        elif self._value(row) != value:
            last = own[-1]
            before = self.words[last.at].removesuffix(last.value) if last.form == "joined" else ""
            yield Replace(last.at + last.count - 1, before + _text(value))

    def _value(self, row: KnobRow) -> Value | None:
        try:
            found = member(self._object, row.key)
            return None if found is None else value_of_json(row, found)
        except KnobError:
            return None

    def _without(self, value: Mapping[str, Any], rows: Sequence[KnobRow]) -> dict[str, Any]:
        """Without the members that are `rows`, nor what was written only beside them."""
        left = dict(value)
        for row in rows:
            left = without_member(left, row.key)
        beside = {name: each for row in rows for name, each in row.beside.items()}
        return {} if left == beside else left

    def _with(self, value: Mapping[str, Any], wanted: Sequence[tuple[KnobRow, Value]]) -> dict[str, Any]:
        """With the members that `wanted` are; a new object also gets what has to stand beside them."""
        result = dict(value) or {name: each for row, _ in wanted for name, each in row.beside.items()}
        for row, new in wanted:
            result = with_member(result, row.key, new)
        return result

    def _rewritten(self, said: Said, value: Mapping[str, Any]) -> tuple[str, ...]:
        text = dump_like(value, said.value)
        if said.form == "joined":
            return (self.words[said.at].removesuffix(said.value) + text,)
        return self.words[said.at], text


def _read(text: str) -> Any:
    """A dotted member as vLLM reads it: as JSON where it is some, else as the text that it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _text(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value)
