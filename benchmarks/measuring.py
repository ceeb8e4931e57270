"""Measures the acceptance table of measuring and capacity: one JSON line per row on stdout.

    PEERS=DIR python benchmarks/measuring.py [--row NAME ...] [--quick] [--pairs N]

PEERS names the folder with vLLM, guidellm and aiperf in it (`venvs/NAME/bin`); rows that need them say so where it
isn't set. Rows about real servers want a quiet machine with two cores. `--quick` takes about a minute.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if sys.path[0] == str(Path(__file__).resolve().parent):
    sys.path[0] = str(ROOT)  # run as a script: this folder has an engine.py that isn't the engine

from benchmarks import measuring_capacity, measuring_clients, measuring_statistics, measuring_twins  # noqa: E402
from benchmarks.measuring_calibration import calibration  # noqa: E402
from benchmarks.peers import Unmeasurable, run  # noqa: E402
from tools.errors import UserError  # noqa: E402

Row = dict[str, Any]
SLOW = ("peers", "calibration", "two_replicas")
"""Not part of --quick."""


def rows(quick: bool, pairs: int) -> dict[str, Callable[[], Row]]:
    """The table, in the order of the issue's."""
    return {
        "peers": lambda: measuring_clients.peers_agree(quick),
        "truth": lambda: measuring_clients.truth(quick, pairs),
        "chunk_rate": lambda: measuring_clients.chunk_rate(quick, pairs),
        "schedule": lambda: measuring_clients.schedule(quick, pairs),
        "coverage": lambda: measuring_statistics.coverage(quick),
        "resolve": lambda: measuring_statistics.resolve(quick),
        "calibration": lambda: calibration(quick),
        "least_replicas": lambda: measuring_capacity.plan_random_fleets(quick),
        "two_replicas": lambda: measuring_capacity.two_replicas(quick),
        "capacity_speed": lambda: measuring_capacity.capacity_speed(quick),
        "twins": lambda: measuring_twins.twins(quick),
        "doctor": lambda: measuring_twins.doctor(quick),
        "reading": lambda: measuring_twins.reading(quick),
        "broken_servers": broken_servers,
    }


def broken_servers() -> Row:
    """Twelve broken servers: the tests that are part of `make test`."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/autotune/test_broken_servers.py"]
    done = run(command, timeout_s=300)
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout)}
    row: Row = {"value": counts, "goal": "each named, none a success, none hangs the client", "ok": not done.returncode}
    return row if not done.returncode else {**row, "why": done.stdout[-600:]}


def tell(name: str, row: Row) -> None:
    print(json.dumps({"row": name, "value": None, "goal": "", "ok": None, **row}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", help="a row of the table; may be given again")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--pairs", type=int, default=3, help="times each side is measured (default: 3)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that servers are reaped
    table = rows(arguments.quick, arguments.pairs)
    if unknown := set(arguments.row or ()) - set(table):
        parser.error(f"--row: expected one of {', '.join(table)}, found {', '.join(sorted(unknown))}")
    for name, measure in table.items():
        if arguments.row and name not in arguments.row:
            continue
        if arguments.quick and name in SLOW:
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


if __name__ == "__main__":
    main()
