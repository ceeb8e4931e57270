"""Row `failures`: real logs of failed starts, sorted by the parsers as they were before the logs were made.

    python -m benchmarks.targets_failures record BATCH [CASE ...]

makes the logs of data/launch_failures/cases-BATCH.yaml anew; the row replays what was recorded.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.launch_faults import Failed, LaunchFault, fail, load_faults
from benchmarks.peers import ROOT, Unmeasurable, model_dir
from benchmarks.table import Row
from tools.redaction import redacted
from tools.targets.failure_signs import Cause
from tools.targets.failures import READ_LINES, diagnose

__all__ = ["failures"]

DATA = ROOT / "benchmarks" / "data" / "launch_failures"
LEAST, ENOUGH = 0.95, 25
_CHARACTERS = 1000
"Of each line that is kept."


@dataclass(frozen=True, slots=True)
class Recorded:
    """A log, and what would be right about it."""

    fault: LaunchFault
    failed: Failed
    found: Cause
    "By the parsers as they were when the log was made; they were changed only after the whole batch was."

    def now(self) -> Cause:
        """What the parsers say today."""
        return diagnose(self.failed.exit_code, self.failed.log, self.failed.timed_out).cause


def failures(quick: bool) -> Row:
    """Share of the logs whose cause was found when they were made, and is found now; `quick` changes nothing."""
    logs = {number: recorded(number) for number in batches()}
    newest = logs[max(logs)]
    right = sum(log.found in log.fault.expect for log in newest)
    share = right / len(newest)
    return {
        "value": f"{right} of {len(newest)} ({share:.1%})",
        "goal": f">= {LEAST:.0%} of >= {ENOUGH} logs that were made after the parsers were frozen",
        "ok": share >= LEAST and len(newest) >= ENOUGH,
        "batches": {number: _figures(batch) for number, batch in logs.items()},
    }


def _figures(batch: list[Recorded]) -> dict[str, Any]:
    return {
        "logs": len(batch),
        "by_engine": dict(Counter(log.fault.engine for log in batch)),
        "right_when_made": sum(log.found in log.fault.expect for log in batch),
        "wrong_when_made": {log.fault.id: log.found for log in batch if log.found not in log.fault.expect},
        "right_now": sum(log.now() in log.fault.expect for log in batch),
    }


def batches() -> list[int]:
    """Numbers of the batches that were recorded."""
    return sorted(int(path.name.split("-")[1].partition(".")[0]) for path in DATA.glob("logs-*.jsonl.gz"))


def recorded(number: int) -> list[Recorded]:
    """The logs of a batch, in the order of its cases; a case that became ready has none."""
    rows = {str(row["id"]): row for row in _rows(DATA / f"logs-{number}.jsonl.gz")}
    return [
        Recorded(fault, Failed(row["exit_code"], row["timed_out"], row["log"]), row["found"])
        for fault in faults(number)
        if (row := rows.get(fault.id)) is not None
    ]


def faults(number: int) -> tuple[LaunchFault, ...]:
    """The cases of a batch."""
    return load_faults(DATA / f"cases-{number}.yaml")


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def record(number: int, names: list[str]) -> None:
    """Produce the failures of a batch and keep their logs; of a batch partly made, the others stay."""
    path = DATA / f"logs-{number}.jsonl.gz"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # another user has to come as far as the model that he may not read
        for fault in faults(number):
            if names and fault.id not in names:
                continue
            failed = fail(fault, Path(folder))
            if failed is None:
                print(f"{fault.id}: it became ready, so it is no failure", file=sys.stderr)
                continue
            text = _neutral(failed.log, Path(folder))
            kept = {str(row["id"]): row for row in _rows(path)}  # anew: another recorder may be at work
            found = diagnose(failed.exit_code, text, failed.timed_out).cause
            kept[fault.id] = {"id": fault.id, "found": found, **asdict(failed), "log": text}
            print(f"{fault.id}: {failed.exit_code}, {len(failed.log)} characters", file=sys.stderr)
            with path.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as out:
                out.write("".join(json.dumps(row) + "\n" for row in kept.values()).encode())


def _neutral(log: str, scratch: Path) -> str:
    """`log` trimmed, without secrets and without this machine's places."""
    places = {
        str(scratch): "/scratch",
        str(model_dir().parent): "/models",
        str(ROOT): "/repository",
        os.environ["PEERS"].rstrip("/"): "/peers",
        sys.prefix: "/venv",
        sys.base_prefix: "/python",
        os.uname().nodename: "host",
        str(Path.home()): "/home/user",
    }
    text = "\n".join(line[:_CHARACTERS] for line in log.splitlines()[-READ_LINES:])
    for place, neutral in places.items():
        text = text.replace(place, neutral)
    return redacted(re.sub(r"/tmp/[\w.-]+", "/scratch", text))


if __name__ == "__main__":
    if sys.argv[1:2] != ["record"] or len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        record(int(sys.argv[2]), sys.argv[3:])
    except Unmeasurable as error:
        sys.exit(str(error))
