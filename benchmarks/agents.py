"""Measures the acceptance table of agents and search: one JSON line per row on stdout.

    python benchmarks/agents.py [--row NAME ...] [--quick] [--all]

Without options every row is measured but `live`, which takes an hour; `--all` measures it too. `--quick` takes at most
about a minute a row: each in its smallest form, or left out. Most rows play recorded tables (`surfaces/`), so that they
can be measured on any machine, busy or not; `live` wants a quiet one. SMAC3 and the Gaussian process take an hour of
one core in `surfaces` and `regret`: AGENTS_OUT names a folder in which plays are kept, so that a stopped row goes on
where it was (see `agents_kept`).
"""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
if sys.path[0] == str(FOLDER):
    sys.path[0] = str(FOLDER.parent)  # run as a script: this folder has an engine.py that isn't the engine

ROWS: dict[str, str] = {
    "surfaces": "agents_surfaces:surfaces",
    "regret": "agents_surfaces:regrets",
    "trials_to_best": "agents_surfaces:trials_to_best",
    "live": "agents_live:live",
    "crashes": "agents_crashes:crashes",
    "valid": "agents_graph:valid",
    "llm": "agents_llm:llm",
    "optimal_left_alone": "agents_graph:optimal_left_alone",
    "injection": "agents_safety:injection",
    "scripted_server": "agents_safety:scripted_server",
    "tokens": "agents_tokens:tokens",
    "screening": "agents_screening:screening",
    "stopping": "agents_stopping:stopping",
}
"""Row -> `module:function`, which takes `quick` and returns the row."""

HOURS = ("live",)
"Rows that take an hour."
SLOW = ("llm", "scripted_server")
"Rows that --quick leaves out: even their small form takes longer than a minute."


def main() -> None:
    from benchmarks.table import options, run_table
    from benchmarks.verifiers import measuring

    parser = options(__doc__)
    parser.add_argument("--all", action="store_true", help="with the row that takes an hour")
    asked = parser.parse_args()
    skipped = () if asked.all or asked.row or asked.quick else HOURS
    table = {name: measuring(place, asked.quick) for name, place in ROWS.items() if name not in skipped}
    run_table(table, asked, SLOW)


if __name__ == "__main__":
    main()
