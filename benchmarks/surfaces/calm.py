"""Calm: which recorded launches had their core to themselves, as far as their own start tells."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

__all__ = ["DISTURBED", "calm", "disturbed"]

DISTURBED = 1.7
"""A launch that took so many times the median of its number formats to be loaded and warm shared its core."""


def disturbed(recorded: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Launches during whose start something else ran. Loading and one warm request are the same work for all configs of
    one number format (nearly: a small step budget adds a little to the request)."""
    starts: defaultdict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row in recorded:
        if not row["failure"]:
            starts[_format(row)].append(_start_s(row))
    usual = {name: median(values) for name, values in starts.items()}
    return [row for row in recorded if not row["failure"] and _start_s(row) > DISTURBED * usual[_format(row)]]


def calm(recorded: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """`recorded` without disturbed launches of cells that have been launched calmly too."""
    noisy = {id(row) for row in disturbed(recorded)}
    quiet = {_place(row) for row in recorded if id(row) not in noisy}
    return [row for row in recorded if id(row) not in noisy or _place(row) not in quiet]


def _start_s(row: Mapping[str, Any]) -> float:
    return float(row["ready_s"] + row["warm_s"])


def _format(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(value for value in row["at"].values() if isinstance(value, str))


def _place(row: Mapping[str, Any]) -> str:
    return json.dumps(row["at"], sort_keys=True)
