"""Which rows the table of measuring and capacity has, and what measures each."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from benchmarks import measuring_capacity, measuring_clients, measuring_statistics, measuring_twins
from benchmarks.measuring_calibration import calibration
from benchmarks.peers import run
from benchmarks.table import Row

__all__ = ["SLOW", "rows"]

SLOW = ("peers", "calibration", "two_replicas", "least_replicas", "capacity_speed")
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
