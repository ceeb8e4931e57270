"""Said: where in a command's words a flag of a table stands, and what it says there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tools.targets.knobs import KnobError
from tools.targets.tables.row import KnobRow
from tools.targets.tables.value_word import is_unexpanded

__all__ = ["Dialect", "Said", "scan"]


@dataclass(frozen=True)
class Dialect:
    """How one engine's command line is read, and the flags of its table."""

    underscores: bool
    "Whether --max_num_seqs is --max-num-seqs."
    equals: bool
    "Whether --flag=value is --flag value."
    rows: Mapping[str, KnobRow]

    @cached_property
    def flags(self) -> Mapping[str, tuple[KnobRow, bool]]:
        """The row that each spelling belongs to, and whether it is the one that says true. None takes a JSON object."""
        found: dict[str, tuple[KnobRow, bool]] = {}
        for row in self.rows.values():
            if row.flag and not row.key:
                found |= dict.fromkeys((row.flag, *(a.flag for a in row.aliases)), (row, True))
                if row.false_flag:
                    found |= dict.fromkeys((row.false_flag, *(a.flag for a in row.false_aliases)), (row, False))
        return found

    @cached_property
    def objects(self) -> Mapping[str, str]:
        """The flag that each spelling of one that takes a JSON object stands for."""
        return {
            spelling: row.flag
            for row in self.rows.values()
            if row.key
            for spelling in (row.flag, *(a.flag for a in row.aliases))
        }

    @cached_property
    def glued(self) -> Mapping[str, KnobRow]:
        return {row.glued: row for row in self.rows.values() if row.glued}

    def split(self, word: str) -> tuple[str, str | None]:
        """The flag as the table spells it, and the value behind its equals sign; None where there is none."""
        flag, sign, value = word.partition("=") if self.equals else (word, "", "")
        if self.underscores and flag.startswith("--"):
            name, dot, keys = flag.partition(".")
            flag = name.replace("_", "-") + dot + keys
        return flag, value if sign else None


@dataclass(frozen=True, slots=True)
class Said:
    """One flag of the table among the words."""

    flag: str
    "As the table spells it, without the dotted key behind it."
    row: KnobRow | None
    "None: a JSON object, whose members belong to several rows."
    sense: bool
    "False where it is a row's false flag."
    form: Literal["alone", "apart", "joined", "glued"]
    "The flag alone; its value in the next word; behind an equals sign; directly behind it."
    at: int
    value: str
    key: str = ""
    "The dotted key, where the flag has one."

    @property
    def count(self) -> int:
        return 2 if self.form == "apart" else 1

    @property
    def unexpanded(self) -> bool:
        """Whether something replaces the value before the engine sees it, so that nobody knows it here."""
        return is_unexpanded(self.value)


def scan(dialect: Dialect, words: Sequence[str]) -> tuple[Said, ...]:
    """Every flag of the table in `words`, in their order.

    Raises:
        KnobError: a flag whose value is missing, or has one that it can't take.
    """
    found: list[Said] = []
    at = 0
    while at < len(words):
        said = _at(dialect, words, at) if words[at].startswith("-") else None
        at += said.count if said else 1
        if said:
            found.append(said)
    return tuple(found)


def _at(dialect: Dialect, words: Sequence[str], at: int) -> Said | None:
    flag, joined = dialect.split(words[at])
    name, _, key = flag.partition(".")
    if name in dialect.objects:
        return _valued(dialect.objects[name], None, words, at, joined, key)
    if flag in dialect.flags:
        row, sense = dialect.flags[flag]
        if not row.is_switch:
            return _valued(row.flag, row, words, at, joined)
        if joined is not None:
            raise KnobError(f"{flag}: expected no value, found {joined!r}")
        return Said(row.flag, row, sense, "alone", at, "")
    for glued, row in dialect.glued.items():
        if words[at].startswith(glued) and (value := words[at][len(glued) :].removeprefix("=")):
            return Said(row.flag, row, True, "glued", at, value)
    return None


def _valued(flag: str, row: KnobRow | None, words: Sequence[str], at: int, joined: str | None, key: str = "") -> Said:
    if joined is not None:
        return Said(flag, row, True, "joined", at, joined, key)
    if at + 1 == len(words) or words[at + 1].startswith("--"):
        raise KnobError(
            f"{words[at]}: expected a value after it, found {' '.join(words[at + 1 : at + 2]) or 'nothing'}"
        )
    return Said(flag, row, True, "apart", at, words[at + 1], key)
