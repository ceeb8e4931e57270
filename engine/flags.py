"""Flags: the command line of the engine, derived from the knob table."""

from __future__ import annotations

import argparse
import difflib
import re
from typing import NoReturn

from engine.errors import StartRefused
from engine.knobs import EngineKnobs, KnobRow, Value, knob_table

__all__ = ["FlagParser", "add_knob_flags", "knobs_from"]


class FlagParser(argparse.ArgumentParser):
    """A parser whose errors are the engine's own: `bad_config`, with the nearest flag for a mistyped one."""

    def error(self, message: str) -> NoReturn:
        unknown = re.search(r"unrecognized arguments: (--[\w-]+)", message)
        if unknown:
            known = [row.flag for row in knob_table()]
            near = difflib.get_close_matches(unknown[1], known, n=1, cutoff=0.5)
            message = f"unknown flag {unknown[1]}" + (f"; did you mean {near[0]}?" if near else "; see --help")
        raise StartRefused("bad_config", message)


def add_knob_flags(parser: argparse.ArgumentParser) -> None:
    """One flag per knob: `--max-num-seqs 32`; `--enable-prefix-caching` and `--no-enable-prefix-caching`."""
    group = parser.add_argument_group("knobs")
    for row in knob_table():
        if row.kind == "bool":
            group.add_argument(row.flag, action=argparse.BooleanOptionalAction, dest=row.name, help=help_of(row))
        else:
            group.add_argument(row.flag, dest=row.name, metavar=metavar_of(row), help=help_of(row))


def knobs_from(arguments: argparse.Namespace) -> EngineKnobs:
    """The knobs that were given as flags; the others at their defaults.

    Raises:
        StartRefused: kind bad_config; a value that its knob can't take.
    """
    given = {row.name: (row, getattr(arguments, row.name)) for row in knob_table()}
    return EngineKnobs.from_values({name: parse(row, text) for name, (row, text) in given.items() if text is not None})


def parse(row: KnobRow, text: str | bool) -> Value:
    """`text` as a value of `row`; what is no number stays text, and the row refuses it in its own words."""
    if isinstance(text, bool):
        return text
    if row.kind == "choice":
        return next((choice for choice in row.choices if str(choice) == text), text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def metavar_of(row: KnobRow) -> str:
    if row.kind == "choice":
        return "{" + ",".join(map(str, row.choices)) + "}"
    return "N"


def help_of(row: KnobRow) -> str:
    bounds = f" {row.low:g} to {row.high:g} {row.unit}." if row.low is not None and row.high is not None else ""
    return f"{row.meaning}{bounds} Default: {row.default}.".replace("%", "%%")
