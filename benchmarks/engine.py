"""Measures the engine's acceptance table: one JSON line per row on stdout.

    PEERS=DIR python benchmarks/engine.py [--row NAME ...] [--quick] [--pairs N] [--flag=--KNOB=VALUE ...]

PEERS is a folder with vLLM, llama.cpp, transformers, guidellm, aiperf and lm-eval, each in a place of its own (see
benchmarks/peers.py); rows that need one that isn't there say so. MODEL is a model directory, by default
SmolLM2-135M-Instruct. Speed rows load ours and a peer in turns (A B A B ...) with `vllm bench serve`, 256 tokens in and
128 out; a value is the median of the ratios. What else the machine does shows in the figures: measure on a quiet one.
`--quick` runs those that take under a minute together.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
if sys.path[0] == str(FOLDER):
    sys.path[0] = str(FOLDER.parent)  # run as a script: this folder has an engine.py that isn't the engine


def main() -> None:
    from benchmarks.engine_rows import QUICK, rows
    from benchmarks.engine_speed import Speed
    from benchmarks.table import options, run_table

    parser = options(__doc__)
    parser.add_argument("--flag", action="append", default=[], help="of our server, written --flag=--name=value")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        speed = Speed(Path(name), asked.pairs, tuple(asked.flag))
        table = rows(speed, Path(name), asked.quick)
        try:
            run_table(table, asked, slow=set(table) - set(QUICK))
        finally:
            speed.stop()


if __name__ == "__main__":
    main()
