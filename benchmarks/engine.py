"""Measures the engine's acceptance table: one JSON line per row on stdout.

    PEERS=DIR python benchmarks/engine.py [--row NAME ...] [--quick] [--pairs N] [--flag=--KNOB=VALUE ...]

PEERS is a folder with vLLM, llama.cpp, transformers, guidellm, aiperf and lm-eval, each in a place of its own (see
benchmarks/peers.py); rows that need one that isn't there say so. MODEL is a model directory, by default
SmolLM2-135M-Instruct. Speed rows load ours and a peer in turns (A B A B ...) with `vllm bench serve`, 256 tokens in and
128 out; a value is the median of the ratios. What else the machine does shows in the figures: measure on a quiet one.
`--quick` runs those that take under a minute together.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if sys.path[0] == str(Path(__file__).resolve().parent):
    sys.path[0] = str(ROOT)  # run as a script: this folder has an engine.py that isn't the engine

from benchmarks.engine_clients import clients, tests  # noqa: E402
from benchmarks.engine_soak import bookkeeping, second_turn, soak  # noqa: E402
from benchmarks.engine_speed import Speed  # noqa: E402
from benchmarks.peers import Unmeasurable  # noqa: E402

Row = dict[str, Any]
QUICK = ("bookkeeping", "second_turn", "soak", "clients")


def rows(speed: Speed, folder: Path, quick: bool) -> dict[str, Callable[[], Row]]:
    """The table; rows that share servers follow each other."""
    flags = speed.flags
    return {
        "tokens_c8": lambda: speed.throughput(8, 1.15),
        "tokens_c32": lambda: speed.throughput(32, 1.1),
        "tpot_c1": speed.tpot,
        "ttft_c1": speed.ttft,
        "transformers_c8": speed.continuous_batching,
        "streaming": speed.streaming,
        "start": speed.start,
        "bookkeeping": lambda: bookkeeping(200 if quick else 800),
        "second_turn": lambda: second_turn(folder, flags, 3 if quick else 5),
        "soak": lambda: soak(folder, 1000 if quick else 20_000),
        "clients": lambda: clients(folder, flags, ("openai", "curl") if quick else ()),
        "triton": lambda: tests("test_*triton*.py", "all shapes pass in the interpreter", TRITON_INTERPRET="1"),
        "native": lambda: tests("test_*native*.py", "all pass"),
    }


def tell(name: str, row: Row) -> None:
    print(json.dumps({"row": name, "value": None, "goal": "", "ok": None, **row}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", help="a row of the table; may be given again")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--pairs", type=int, default=3, help="times each side is measured (default: 3)")
    parser.add_argument("--flag", action="append", default=[], help="of our server, written --flag=--name=value")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that servers are reaped
    with tempfile.TemporaryDirectory() as name:
        speed = Speed(Path(name), arguments.pairs, tuple(arguments.flag))
        table = rows(speed, Path(name), arguments.quick)
        if unknown := set(arguments.row or ()) - set(table):
            parser.error(f"--row: expected one of {', '.join(table)}, found {', '.join(sorted(unknown))}")
        try:
            for row, measure in table.items():
                if arguments.row and row not in arguments.row:
                    continue
                if arguments.quick and row not in QUICK:
                    tell(row, {"why": "takes longer than a minute; run it without --quick"})
                    continue
                started_s = time.monotonic()
                try:
                    result = measure()
                except Unmeasurable as error:
                    result = {"why": str(error)}
                except (LookupError, ValueError, OSError, subprocess.SubprocessError) as error:
                    result = {"ok": False, "why": f"couldn't be measured: {type(error).__name__}: {error}"}
                tell(row, {**result, "seconds": round(time.monotonic() - started_s, 1)})
        finally:
            speed.stop()


if __name__ == "__main__":
    main()
