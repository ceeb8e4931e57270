"""Row `hostile`: server processes that misbehave, each started, stopped and looked for afterwards."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import ROOT
from benchmarks.table import Row
from tools.targets import supervise
from tools.targets.process import ServerProcess, free_port, port_is_open
from tools.targets.target import LaunchFailed

__all__ = ["row"]

SCRIPT = ROOT / "tests" / "tools" / "hostile_server.py"
CAP_BYTES = 1 << 20
GRACE_S, NOT_READY_S = 0.5, 1.0
LIMIT_S = supervise.LEFTOVER_GRACE_S + 2.0
"Beyond the grace or the time to become ready; what `ServerProcess.stop` promises, without its last resort."
MARK = "AUTOTUNE_BENCHMARK_HOSTILE"


@dataclass(frozen=True, slots=True)
class Case:
    """What a server does, and what has to be said of it."""

    modes: str
    said: str
    "Kind of its failure; `stopped` where it became ready and we ended it."


CASES = (
    Case("ignore", "stopped"),
    Case("stray", "stopped"),
    Case("heir", "stopped"),
    Case("children", "stopped"),
    Case("moving", "stopped"),
    Case("flood", "stopped"),
    Case("ignore stray children moving flood", "stopped"),
    Case("mute", "timeout"),
    Case("busy", "timeout"),
    Case("trickle", "timeout"),
    Case("ignore stray children flood mute", "timeout"),
    Case("daemon", "crash"),
    Case("daemon ignore stray", "crash"),
    Case("binary dies", "crash"),
    Case("heir children dies", "crash"),
)


def row(quick: bool) -> Row:
    """Cases in which all was as it should be; three rounds, with `quick` one."""
    wrong: list[str] = []
    slowest_s, largest = 0.0, 0
    rounds = 1 if quick else 3
    for case in CASES * rounds:
        with tempfile.TemporaryDirectory() as folder:
            said, over_s, left, size = _play(case, Path(folder) / "server.log")
        slowest_s, largest = max(slowest_s, over_s), max(largest, size)
        faults = [
            f"said {said}" if said != case.said else "",
            f"took {over_s:.1f} s beyond its limit" if over_s > LIMIT_S else "",
            f"left {', '.join(left)}" if left else "",
            f"{size} bytes of log" if size > 2 * CAP_BYTES else "",
        ]
        if any(faults):
            wrong.append(f"{case.modes}: {'; '.join(filter(None, faults))}")
    right = len(CASES) * rounds - len(wrong)
    return {
        "value": f"{right} of {len(CASES) * rounds}",
        "goal": f"all reaped within {LIMIT_S:g} s of their limit, the log within its cap, and told apart",
        "ok": not wrong,
        "slowest_s": round(slowest_s, 2),
        "largest_log_bytes": largest,
        "log_cap_bytes": 2 * CAP_BYTES,
        "wrong": wrong,
    }


def _play(case: Case, log: Path) -> tuple[str, float, list[str], int]:
    """What was said of it, seconds beyond the limit that it was given, what is left of it, and bytes of log."""
    port = free_port()
    mark = f"{os.getpid()}-{port}"
    argv = [sys.executable, "-I", "-S", str(SCRIPT), str(port), *case.modes.split()]
    process = ServerProcess(argv, log=log, env={**os.environ, MARK: mark}, log_cap_bytes=CAP_BYTES)
    started_s, allowed_s = time.monotonic(), NOT_READY_S if case.said == "timeout" else GRACE_S
    try:
        process.wait_ready(f"http://127.0.0.1:{port}", timeout_s=NOT_READY_S if case.said == "timeout" else 60.0)
        said = "stopped"
        if case.said == "crash":
            while process.exit_code is None:
                time.sleep(0.01)
            said = process.failure(process.exit_code).kind
        else:
            time.sleep(0.5)  # so that a flood is under way
            started_s = time.monotonic()
    except LaunchFailed as failure:
        said = failure.kind
    process.stop(GRACE_S)
    over_s = 0.0 if case.said == "crash" else time.monotonic() - started_s - allowed_s
    left = [f"process {pid}" for pid in _marked(mark)] + ([f"port {port}"] if port_is_open(port) else [])
    return said, over_s, left, sum(file.stat().st_size for file in log.parent.iterdir())


def _marked(mark: str) -> list[int]:
    """Processes that have the mark in their environment, whichever session they moved to."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
