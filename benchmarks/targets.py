"""Measures the acceptance table of targets: one JSON line per row on stdout.

    python benchmarks/targets.py [--row NAME ...] [--quick]

PEERS names the folder of vLLM and llama.cpp (`venvs/vllm`, `build-llama/bin`); rows that need them say so without it.
`tune` and `misconfigured` take hours of two quiet cores: TARGETS_OUT names a folder in which each of their runs is
kept, so that a stopped row goes on where it was. `--quick` takes at most about a minute in all.
"""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
if sys.path[0] == str(FOLDER):
    sys.path[0] = str(FOLDER.parent)  # run as a script: this folder has an engine.py that isn't the engine

ROWS: dict[str, str] = {
    "tune": "targets_tune:tune",
    "tables": "targets_tables:row",
    "failures": "targets_failures:failures",
    "misconfigured": "targets_misconfigured:misconfigured",
    "import": "targets_import:row",
    "manifests": "targets_manifests:row",
    "external": "targets_external:row",
    "hostile": "targets_hostile:row",
}
"""Row -> `module:function`, which takes `quick` and returns the row."""

SLOW = ("tune", "misconfigured")
"Rows that --quick leaves out."


def main() -> None:
    from benchmarks.table import options, run_table
    from benchmarks.verifiers import measuring

    asked = options(__doc__).parse_args()
    run_table({name: measuring(place, asked.quick) for name, place in ROWS.items()}, asked, SLOW)


if __name__ == "__main__":
    main()
