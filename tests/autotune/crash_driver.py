"""Runs a tuning to its end while killing it, by SIGKILL, once at every boundary that it comes to.

`crash_driver.py DEPLOYMENT RUNS [all]` prints one JSON line: how the run ended and where it was killed. Each attempt is
a forked child that starts or resumes the run; it kills itself at the first boundary where no attempt was killed before.
A launch repeated after a kill costs seconds, so without `all` only the first trial of each kind is killed while it is
loaded and between its measurement and its record.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from autotune.harness import Budget, Options, RunDir, Silent, resume, start

DEAR = ("trial:", "calibrate")
FIRST_OF_THEIR_KIND = ("trial:b1", "trial:t1", "trial:c1", "trial:c2", "calibrate")


class Killer(Silent):
    """Kills its process at the first boundary that isn't in `used`."""

    def __init__(self, used: Path, everywhere: bool) -> None:
        self.used = used
        self.everywhere = everywhere
        self.effect = ""

    def observe(self, boundary: str, key: str) -> None:
        self.effect = key if boundary == "before" else ""
        dear = boundary == "acted" and key.startswith(DEAR) and key not in FIRST_OF_THEIR_KIND
        if self.everywhere or not dear:
            self._kill_once(f"{boundary} {key}")

    def requests(self, done: int, total: int, seconds_left: float | None) -> None:
        if self.everywhere or self.effect in FIRST_OF_THEIR_KIND:
            self._kill_once(f"loading {self.effect}")

    def _kill_once(self, place: str) -> None:
        seen = self.used.read_text().splitlines() if self.used.exists() else []
        if place not in seen:
            with self.used.open("a") as file:
                file.write(place + "\n")
            os.kill(os.getpid(), signal.SIGKILL)


def attempt(deployment: Path, runs: Path, killer: Killer) -> int:
    """One session of the run; returns its exit code."""
    options = Options(budget=Budget(wall_s=3600, trials=3))
    if any(runs.glob("*/ledger.jsonl")):
        return resume(RunDir.open(runs, "latest"), killer, observe=killer.observe).exit_code
    return start(deployment, runs, options, killer, observe=killer.observe).exit_code


def main() -> None:
    deployment, runs = Path(sys.argv[1]), Path(sys.argv[2])
    killer = Killer(runs.parent / "killed-at", everywhere="all" in sys.argv[3:])
    for _ in range(400):
        child = os.fork()
        if child == 0:
            os._exit(attempt(deployment, runs, killer))
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            places = killer.used.read_text().splitlines()
            print(json.dumps({"exit_code": os.WEXITSTATUS(status), "killed_at": places}))
            return
    sys.exit("the run didn't end within 400 sessions")


main()
