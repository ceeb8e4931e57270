"""Measures the acceptance table of verifiers, evals and the gauntlet: one JSON line per row on stdout.

    python benchmarks/verifiers.py [--row NAME ...] [--quick] [--all]

Without options every row is measured but those that take hours; `--all` measures these too. `--quick` takes about a
minute a row and leaves out what can't. Rows about real servers want a quiet machine with two cores.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
if sys.path[0] == str(FOLDER):
    sys.path[0] = str(FOLDER.parent)  # run as a script: this folder has an engine.py that isn't the engine

ROWS: dict[str, str] = {
    "classes": "verifiers_gauntlet:classes",
    "controls": "verifiers_gauntlet:controls",
    "mutation": "verifiers_gauntlet:mutation",
    "aa_simulated": "verifiers_statistics:aa_simulated",
    "power": "verifiers_statistics:power",
    "trials_saved": "verifiers_statistics:trials_saved",
    "aa_live": "verifiers_live:aa_live",
    "gains_live": "verifiers_live:gains_live",
    "lossy": "verifiers_quality:lossy",
    "lossless": "verifiers_quality:lossless",
    "physics": "verifiers_physics:physics",
    "forgery": "verifiers_record:forgery",
    "reproduce": "verifiers_record:reproduce",
    "hostile": "verifiers_record:hostile",
    "card": "verifiers_card:card",
}
"""Row -> `module:function`; the function takes `quick` and returns the row. Each is imported when it is measured, so
that a row that can't run here doesn't keep the others from it."""

HOURS = ("aa_live", "gains_live", "card")
"Rows that take hours."
SLOW = (*HOURS, "lossless", "hostile", "reproduce")
"Rows that --quick leaves out: even their small form takes longer than a minute."


def main() -> None:
    from benchmarks.table import options, run_table

    parser = options(__doc__)
    parser.add_argument("--all", action="store_true", help="with the rows that take hours")
    asked = parser.parse_args()
    skipped = HOURS if not (asked.all or asked.row) else ()
    table = {name: measuring(place, asked.quick) for name, place in ROWS.items() if name not in skipped}
    run_table(table, asked, SLOW)


def measuring(place: str, quick: bool) -> Callable[[], dict[str, object]]:
    """What measures the row at `module:function`."""

    def measure() -> dict[str, object]:
        module, _, function = place.partition(":")
        found: dict[str, object] = getattr(importlib.import_module(f"benchmarks.{module}"), function)(quick)
        return found

    return measure


if __name__ == "__main__":
    main()
