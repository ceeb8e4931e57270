"""KnobTable: the knobs of one engine at one version, and how each is written on its command line and read from it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tools.targets.knobs import KnobSpace, Value
from tools.targets.tables.objects import FlagObject
from tools.targets.tables.plain import change_plain, read_plain_row, words_for
from tools.targets.tables.read_back import ReadBack, Spelled
from tools.targets.tables.row import KnobRow
from tools.targets.tables.said import Dialect, Said, scan
from tools.targets.tables.value_word import word_of
from tools.targets.tables.versions import VersionRange, parse_version
from tools.targets.tables.word_edit import Insert, SetVariable, WordEdit, edited

__all__ = ["KnobTable"]


@dataclass(frozen=True)
class KnobTable:
    """The knobs of an engine, by name. What an engine's own defaults are stays unspoken: their flags are left out."""

    engine: str
    versions: str
    "The range that the table is about, such as >=0.30,<0.34; empty: whichever."
    rows: Mapping[str, KnobRow]
    forbidden: Mapping[str, str]
    "Flags that no proposal may ever touch, each with why."
    underscores: bool = False
    equals: bool = True
    whole: Mapping[str, KnobRow] | None = None
    "Every row of the engine, where `rows` is a part: a flag takes a value, whoever asks."

    @cached_property
    def space(self) -> KnobSpace:
        """Of a part of the table: what depends on a knob outside it has an effect for all that is known."""
        knobs = {name: row.knob for name, row in self.rows.items()}
        return KnobSpace(
            {
                name: replace(knob, only_when=None) if knob.only_when and knob.only_when[0] not in knobs else knob
                for name, knob in knobs.items()
            }
        )

    def covers(self, version: str) -> bool:
        """Whether the table is about `version`; beyond its range it is the nearest that there is."""
        return parse_version(version) in VersionRange.parse(self.versions)

    def only(self, names: Collection[str]) -> KnobTable:
        """The part of the table that `names` span.

        Raises:
            KnobError: a name that the engine has no knob for; it suggests the nearest one.
        """
        for name in names:
            _ = self.space[name]
        rows = {name: row for name, row in self.rows.items() if name in names}
        return replace(self, rows=rows, whole=self._all)

    def spoken(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """`values` without those that only silence says, such as a switch that is off: what `read` can give back."""
        silent = {name for name, value in values.items() if self.rows[name].is_silent(value)}
        objects = {self.rows[name].flag for name in silent if self.rows[name].key}
        return {
            name: value
            for name, value in values.items()
            if name not in silent and not (self.rows[name].key and self.rows[name].flag in objects)
        }

    def spell(self, values: Mapping[str, Value]) -> Spelled:
        """The words and variables that say `values`, in the table's order; nothing for what silence says.

        Raises:
            KnobError: an unknown knob, or a value that it can't take.
        """
        checked = {name: self.space[name].check(value) for name, value in values.items()}
        spoken = self.spoken({name: checked[name] for name in self.rows if name in checked})
        words: list[str] = []
        variables: dict[str, str] = {}
        for name, value in spoken.items():
            row = self.rows[name]
            if not row.flag:
                variables[row.variable] = word_of(row, value)
            elif not row.key:
                words += words_for(row, value)
        for found in self._objects((), ()):
            wanted = {row.name: spoken[row.name] for row in found.rows if row.name in spoken}
            words += [word for each in found.change(wanted) if isinstance(each, tuple) for word in each]
        return Spelled(tuple(words), variables)

    def command(
        self, arguments: Sequence[str], environment: Mapping[str, str], values: Mapping[str, Value | None]
    ) -> Spelled:
        """An owner's `arguments` and `environment` with `values` said in them: merged into the objects that are there.

        Raises:
            KnobError: as `edits`.
        """
        words, variables = edited(arguments, environment, self.edits(arguments, environment, values))
        return Spelled(words, variables)

    def read(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> ReadBack:
        """What `arguments` and `environment` say of the knobs. The last of several words on a knob counts.

        A word that a shell or a template fills in is never guessed: it stays in the rest.

        Raises:
            KnobError: a value that its knob can't take, a flag without its value.
        """
        environment = environment or {}
        said = scan(self._dialect, arguments)
        values: dict[str, Value] = {}
        gone: dict[int, tuple[int, tuple[str, ...]]] = {}
        variables = dict(environment)
        for row in self.rows.values():
            own = [each for each in said if each.row is row]
            value = None if row.key else read_plain_row(row, own, environment)
            if value is not None:
                values[row.name] = value
                gone |= {each.at: (each.count, ()) for each in own}
                variables.pop(row.variable, None)
        for found in self._objects(arguments, said):
            values |= found.values
            gone |= {at: (count, words) for at, count, words in found.remaining()}
        in_order = {name: values[name] for name in self.rows if name in values}
        return ReadBack(in_order, tuple(_left(arguments, gone)), variables)

    def edits(
        self, arguments: Sequence[str], environment: Mapping[str, str], changes: Mapping[str, Value | None]
    ) -> tuple[WordEdit, ...]:
        """The fewest edits after which `read` gives what it gave before, and `changes`; None takes a knob out.

        What silence says is taken out too: of an object (speculation off) that is all of it, an owner's members too.

        Raises:
            KnobError: an unknown knob, a value that it can't take, or one that is filled in elsewhere.
        """
        for name, value in changes.items():
            knob = self.space[name]
            if value is not None:
                knob.check(value)
        said = scan(self._dialect, arguments)
        found: list[WordEdit | tuple[str, ...]] = []
        for row in self.rows.values():
            if row.name in changes and not row.key:
                own = [each for each in said if each.row is row]
                found += change_plain(row, changes[row.name], arguments, own, environment)
        for each in self._objects(arguments, said):
            if wanted := {row.name: changes[row.name] for row in each.rows if row.name in changes}:
                found += each.change(wanted)
        new = tuple(word for each in found if isinstance(each, tuple) for word in each)
        edits = [each for each in found if not isinstance(each, tuple)]
        return (
            *sorted((edit for edit in edits if not isinstance(edit, SetVariable)), key=lambda edit: edit.at),
            *((Insert(len(arguments), new),) if new else ()),
            *(edit for edit in edits if isinstance(edit, SetVariable)),
        )

    def _objects(self, words: Sequence[str], said: Sequence[Said]) -> Iterator[FlagObject]:
        """Each flag that takes an object, with the knobs of this table that are members of it."""
        for flag in dict.fromkeys(row.flag for row in self.rows.values() if row.key):
            rows = tuple(row for row in self.rows.values() if row.key and row.flag == flag)
            yield FlagObject(flag, rows, words, tuple(each for each in said if each.row is None and each.flag == flag))

    @property
    def _all(self) -> Mapping[str, KnobRow]:
        return self.rows if self.whole is None else self.whole

    @cached_property
    def _dialect(self) -> Dialect:
        return Dialect(self.underscores, self.equals, self._all)


def _left(words: Sequence[str], gone: Mapping[int, tuple[int, tuple[str, ...]]]) -> Iterator[str]:
    at = 0
    while at < len(words):
        count, instead = gone.get(at, (1, (words[at],)))
        yield from instead
        at += count
