"""Knob tables: which settings an engine has at which version, and how each is said on its command line."""

from tools.targets.tables.read_back import ReadBack, Spelled
from tools.targets.tables.registry import table_file, table_for
from tools.targets.tables.table import KnobTable
from tools.targets.tables.table_file import TableFile, parse_table

__all__ = ["KnobTable", "ReadBack", "Spelled", "TableFile", "parse_table", "table_file", "table_for"]
