"""Drift: where a knob table and an engine's own word on its flags or its config have come apart."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tools.targets.knobs import KnobError, Value
from tools.targets.tables.engine_flag import EngineFlag
from tools.targets.tables.help_text import read_help
from tools.targets.tables.row import KnobRow
from tools.targets.tables.table import KnobTable
from tools.targets.tables.value_word import value_of, value_of_json

__all__ = ["Drift", "drift", "drift_of_config", "drift_of_flags"]

DriftKind = Literal["gone", "renamed", "type", "choices", "default", "new_choices", "effective"]

_TRUE, _FALSE = ("true", "enabled", "on", "1"), ("false", "disabled", "off", "0", "none")


@dataclass(frozen=True, slots=True)
class Drift:
    """One thing that the table says and the engine doesn't, or the other way round."""

    kind: DriftKind
    knob: str
    "Empty for a flag that is forbidden."
    flag: str
    said: str
    "By the table."
    found: str
    "With the engine."

    @property
    def breaks(self) -> bool:
        """Whether words that the table spells would be refused, or mean something else. New choices and other
        defaults break nothing: what isn't named isn't said."""
        return self.kind not in ("new_choices", "default")

    @property
    def sentence(self) -> str:
        what = f"{self.knob} ({self.flag})" if self.knob else self.flag
        return f"{what}: the table says {self.said}, the engine {self.found}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"breaks": self.breaks}


def drift(table: KnobTable, help_text: str) -> tuple[Drift, ...]:
    """Where `table` and the engine's own help part.

    Raises:
        UserError: `help_text` is no help of an engine.
    """
    return drift_of_flags(table, read_help(help_text))


def drift_of_flags(table: KnobTable, flags: Mapping[str, EngineFlag]) -> tuple[Drift, ...]:
    """Where `table` and `flags`, each under every spelling of it, part."""
    found: list[Drift] = []
    for row in table.rows.values():
        flag = flags.get(row.flag)
        for spelling in (row.flag, row.false_flag, *(a.flag for a in (*row.aliases, *row.false_aliases))):
            if spelling and spelling not in flags and not _abbreviates(spelling, flag, flags):
                found.append(_gone(row.name, spelling, flags))
        if flag is not None:
            found += _of_row(row, flag)
    found += [_gone("", flag, flags) for flag in table.forbidden if flag not in flags]
    return tuple(found)


def drift_of_config(table: KnobTable, asked: Mapping[str, Value], effective: Mapping[str, Any]) -> tuple[Drift, ...]:
    """Where the config that a server says it has isn't the one that it was `asked` for.

    Args:
        effective: by the server's own names (SGLang's /server_info, vLLM's engine args).
    """
    found = []
    for name, value in asked.items():
        row = table.rows[name]
        theirs = row.effective or name
        if theirs not in effective:
            near = difflib.get_close_matches(theirs, effective, n=1)
            told = f"doesn't name it; the nearest is {near[0]}" if near else "doesn't name it"
            found.append(Drift("effective", name, row.flag or row.variable, f"{theirs} is {value}", told))
        elif not _same(row, value, effective[theirs]):
            found.append(
                Drift("effective", name, row.flag or row.variable, f"{theirs} is {value}", f"has {effective[theirs]}")
            )
    return tuple(found)


def _same(row: KnobRow, value: Value, told: Any) -> bool:
    if told is None:
        return row.is_silent(value)
    try:
        return value_of_json(row, told) == value
    except KnobError:
        return False


def _abbreviates(spelling: str, flag: EngineFlag | None, flags: Mapping[str, EngineFlag]) -> bool:
    """Whether argparse takes `spelling` for `flag` and no other: --tp is --tp-size."""
    longer = {id(each) for name, each in flags.items() if name.startswith(spelling)}
    return spelling.startswith("--") and flag is not None and longer == {id(flag)}


def _gone(knob: str, spelling: str, flags: Mapping[str, EngineFlag]) -> Drift:
    near = difflib.get_close_matches(spelling, flags, n=1, cutoff=0.75)
    if near:
        return Drift("renamed", knob, spelling, spelling, f"has {near[0]}")
    return Drift("gone", knob, spelling, spelling, "has no such flag")


def _of_row(row: KnobRow, flag: EngineFlag) -> Iterator[Drift]:
    wanted = "nothing" if row.is_switch else "value"
    if flag.takes != wanted:
        yield Drift("type", row.name, row.flag, f"it takes {wanted}", f"it takes {flag.takes}")
    elif not row.key and (theirs := flag.numbers or _of_words(row, flag)) and theirs != _kind(row):
        yield Drift("type", row.name, row.flag, f"it takes {_kind(row)}", f"it takes {theirs}")
    if row.variable and flag.variable != row.variable:
        yield Drift("gone", row.name, row.variable, f"{row.variable} says it too", f"has {flag.variable or 'none'}")
    if not row.key:
        yield from _choices(row, flag)
        yield from _default(row, flag)


def _kind(row: KnobRow) -> str:
    """What kind of value stands on the command line."""
    numbers = row.kind == "choice" and all(type(choice) is int for choice in row.choices)
    return "int" if numbers else row.kind


def _of_words(row: KnobRow, flag: EngineFlag) -> str:
    """`choice` where the engine takes words that are no number for what the table has as one."""
    words = [word for word in flag.choices if word not in row.open_words]
    numeric = row.kind in ("int", "float") and any(not word.lstrip("-").replace(".", "", 1).isdigit() for word in words)
    return "choice" if numeric else ""


def _choices(row: KnobRow, flag: EngineFlag) -> Iterator[Drift]:
    if not flag.choices:
        return
    if row.kind == "choice":
        mine = {str(choice) for choice in row.choices if not row.is_silent(choice)}
    else:
        mine = {words[0] for words in row.words.values()}
    theirs = set(flag.choices)
    if lost := sorted(mine - theirs):
        yield Drift("choices", row.name, row.flag, f"it takes {', '.join(lost)}", f"it takes {_some(flag.choices)}")
    known = {*mine, *row.open_words, *(word for words in row.words.values() for word in words), "None", "none"}
    if row.kind in ("choice", "bool") and (new := sorted(theirs - known)):
        yield Drift("new_choices", row.name, row.flag, f"it takes {_some(sorted(mine))}", f"also {', '.join(new)}")


def _some(words: tuple[str, ...] | list[str]) -> str:
    return ", ".join(words[:8]) + (", …" if len(words) > 8 else "")


def _default(row: KnobRow, flag: EngineFlag) -> Iterator[Drift]:
    """A default that the engine chooses for itself has no value to compare; there only a stated value is news."""
    told = flag.default
    if told is None or row.default is None:
        return
    if not _says_default(row, told):
        yield Drift("default", row.name, row.flag, f"its default is {row.default}", f"its default is {told}")


def _says_default(row: KnobRow, told: str) -> bool:
    if row.kind == "bool":
        return told.lower() in (_TRUE if row.default else _FALSE)
    try:
        return value_of(row, told) == row.default
    except KnobError:
        return False
