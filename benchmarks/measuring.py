"""Measures the acceptance table of measuring and capacity: one JSON line per row on stdout.

    PEERS=DIR python benchmarks/measuring.py [--row NAME ...] [--quick] [--pairs N]

PEERS names the folder with vLLM, guidellm and aiperf in it (`venvs/NAME/bin`); rows that need them say so where it
isn't set. Rows about real servers want a quiet machine with two cores. `--quick` takes about a minute.
"""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
if sys.path[0] == str(FOLDER):
    sys.path[0] = str(FOLDER.parent)  # run as a script: this folder has an engine.py that isn't the engine


def main() -> None:
    from benchmarks.measuring_rows import SLOW, rows
    from benchmarks.table import options, run_table

    asked = options(__doc__).parse_args()
    run_table(rows(asked.quick, asked.pairs), asked, SLOW)


if __name__ == "__main__":
    main()
