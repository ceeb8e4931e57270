"""A table of measured rows: those that are asked for are measured, and each is one JSON line on stdout."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from benchmarks.peers import Unmeasurable
from tools.errors import UserError

__all__ = ["Row", "options", "run_table", "tell"]

Row = dict[str, Any]
"""`value`, `goal`, `ok` (None: can't run here, and `why`), and whatever else shows how it came about."""


def options(description: str | None) -> argparse.ArgumentParser:
    """The options that every table has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", help="a row of the table; may be given again")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--pairs", type=int, default=3, help="times each side is measured (default: 3)")
    return parser


def run_table(table: Mapping[str, Callable[[], Row]], asked: argparse.Namespace, slow: Collection[str]) -> None:
    """Measure the rows that `asked` (of `options`) names, all by default; with --quick none of the `slow` ones.

    A row that fails is told as such, so that the others are measured. SIGTERM ends in order: servers are reaped.
    """
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if unknown := set(asked.row or ()) - set(table):
        sys.exit(f"--row: expected one of {', '.join(table)}, found {', '.join(sorted(unknown))}")
    for name, measure in table.items():
        if asked.row and name not in asked.row:
            continue
        if asked.quick and name in slow:
            tell(name, {"why": "takes longer than a minute; run it without --quick"})
            continue
        started_s = time.monotonic()
        try:
            result = measure()
        except Unmeasurable as error:
            result = {"why": str(error)}
        except (UserError, LookupError, ValueError, OSError, subprocess.SubprocessError) as error:
            result = {"ok": False, "why": f"couldn't be measured: {type(error).__name__}: {error}"}
        tell(name, {**result, "seconds": round(time.monotonic() - started_s, 1)})


def tell(name: str, row: Row) -> None:
    """One line on stdout."""
    print(json.dumps({"row": name, "value": None, "goal": "", "ok": None, **row}), flush=True)
