"""The one registry of knob tables: a YAML file per engine, shipped beside this one."""

from __future__ import annotations

from functools import cache
from importlib import resources

from tools.errors import UserError
from tools.targets.engine_name import EngineName
from tools.targets.tables.table import KnobTable
from tools.targets.tables.table_file import TableFile, parse_table

__all__ = ["table_file", "table_for"]


@cache
def table_file(engine: EngineName) -> TableFile:
    """Every row of `engine`, of all versions.

    Raises:
        UserError: the bundled engine, whose knobs its own target tells.
    """
    if engine == "bundled":
        raise UserError("the bundled engine's knobs are told by the engine itself; there is no table of them")
    name = f"{engine}.yaml"
    return parse_table(resources.files("tools.targets.tables").joinpath(name).read_text(encoding="utf-8"), name)


@cache
def table_for(engine: EngineName, version: str | None = None) -> KnobTable:
    """The knobs of `engine` at `version`, or at the nearest version that the table is about; None: the newest known.

    Raises:
        UserError: the bundled engine, or a text in which there is no version.
    """
    return table_file(engine).at(version)
