"""TableFile: a knob table as it stands in YAML, shipped or an owner's own, and checked as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from tools.errors import UserError
from tools.targets.tables.row import KnobRow
from tools.targets.tables.table import KnobTable
from tools.targets.tables.versions import Version, VersionRange, parse_version

__all__ = ["Forbidden", "TableFile", "parse_table"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Forbidden(_Strict):
    """Flags that are no proposal's to touch, for one reason."""

    why: str = Field(min_length=1)
    flags: tuple[str, ...] = Field(min_length=1)
    versions: str = ""


class TableFile(_Strict):
    """All rows of one engine, of every version in its range."""

    engine: str
    about: str
    "For people: from what the rows were read."
    versions: str = ""
    known: tuple[str, ...] = Field(min_length=1)
    "Versions whose own help or argument table was compared with the rows, the oldest first."
    underscores: bool = False
    "Whether the engine takes --max_num_seqs for --max-num-seqs."
    equals: bool = True
    "Whether it takes --flag=value for --flag value."
    knobs: tuple[KnobRow, ...]
    forbidden: tuple[Forbidden, ...] = ()

    @field_validator("known")
    @classmethod
    def _in_order(cls, known: tuple[str, ...]) -> tuple[str, ...]:
        versions = [parse_version(each) for each in known]
        if versions != sorted(set(versions)):
            raise ValueError(f"known: expected versions, each later than the one before, found {', '.join(known)}")
        return known

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for problem in _problems(self):
            raise ValueError(problem)
        return self

    def at(self, version: str | None) -> KnobTable:
        """The table at `version`: at the nearest one that it is about; None: at the newest known."""
        asked = parse_version(self.known[-1] if version is None else version)
        at = _nearest(asked, VersionRange.parse(self.versions), [parse_version(each) for each in self.known])
        rows = {row.name: row.at(at) for row in self.knobs if at in row.range}
        forbidden = {
            flag: each.why for each in self.forbidden if at in VersionRange.parse(each.versions) for flag in each.flags
        }
        return KnobTable(self.engine, self.versions, rows, forbidden, self.underscores, self.equals)


def parse_table(text: str, place: str) -> TableFile:
    """The table that the YAML `text` from `place` holds.

    Raises:
        UserError: not YAML, an unknown key, rows that contradict one another; the message names the place.
    """
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{place}: not YAML: {error}") from None
    try:
        return TableFile.model_validate(data)
    except ValidationError as error:
        lines = [
            f"  {_where(data, each['loc'])}: {each['msg'].removeprefix('Value error, ')}" for each in error.errors()
        ]
        raise UserError("\n".join([f"{place}: not a valid knob table", *lines])) from None


def _where(data: Any, keys: tuple[int | str, ...]) -> str:
    """The place of a problem, a knob by its name rather than by its position."""
    if len(keys) > 1 and keys[0] == "knobs" and isinstance(keys[1], int):
        row = data["knobs"][keys[1]]
        name = row.get("name", keys[1]) if isinstance(row, dict) else keys[1]
        return ".".join([f"knob {name}", *map(str, keys[2:])])
    return ".".join(map(str, keys)) or "table"


def _nearest(asked: Version, span: VersionRange, known: Sequence[Version]) -> Version:
    if asked in span:
        return asked
    return known[0] if span.low is not None and asked < span.low else known[-1]


def _problems(table: TableFile) -> Iterator[str]:
    """What two rows of a table say that can't both be so."""
    for one, other in combinations(table.knobs, 2):
        if one.range.overlaps(other.range):
            if one.name == other.name:
                yield f"two rows of the same versions are called {one.name}"
            same_object = one.key and other.key and one.flag == other.flag
            if not same_object and (shared := _spellings(one) & _spellings(other)):
                yield f"{one.name} and {other.name} share {', '.join(sorted(shared))}"
            if same_object and one.key == other.key:
                yield f"{one.name} and {other.name} share the member {one.key} of {one.flag}"
    spelled = {spelling: row.name for row in table.knobs for spelling in _spellings(row) if not row.key}
    for flag in (flag for each in table.forbidden for flag in each.flags):
        if flag in spelled:
            yield f"{flag} is forbidden, and the flag of {spelled[flag]}"
    for row in table.knobs:
        for name, values in row.only_when.items():
            others = [other for other in table.knobs if other.name == name and other.range.overlaps(row.range)]
            if not others:
                yield f"{row.name}: only_when names {name}, which has no row of these versions"
            for other, value in ((other, value) for other in others for value in values):
                try:
                    other.knob.check(value)
                except UserError as error:
                    yield f"{row.name}: only_when: {error}"


def _spellings(row: KnobRow) -> set[str]:
    aliases = {alias.flag for alias in (*row.aliases, *row.false_aliases)}
    return (aliases | {row.flag, row.false_flag, row.glued, row.variable}) - {""}
