"""Which rows the engine's table has, and what measures each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.engine_clients import clients, tests
from benchmarks.engine_soak import bookkeeping, second_turn, soak
from benchmarks.engine_speed import Speed
from benchmarks.table import Row

__all__ = ["QUICK", "rows"]

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
