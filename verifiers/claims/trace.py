"""Trace: which claims of a text no recorded figure bears out, at the rounding in which they are shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from verifiers.claims.cells import Cell
from verifiers.claims.parse import Claim, claims_in

__all__ = ["WITHHELD", "shown", "untraceable"]

WITHHELD = "(withheld: it states a figure that nothing measured bears out)"

_IN_MS = {"ms": 1.0, "s": 1000.0, "min": 60_000.0, "us": 0.001}
_IN_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_IN_BYTES_PER_S = {"B/s": 1.0, "MB/s": 1e6, "GB/s": 1e9, "GiB/s": 2.0**30}
_IN_FLOPS = {"FLOP/s": 1.0, "GFLOP/s": 1e9, "TFLOP/s": 1e12}
_SCALES = (_IN_MS, _IN_BYTES, _IN_BYTES_PER_S, _IN_FLOPS)


def untraceable(text: str, cells: Iterable[Cell], objective: str) -> tuple[Claim, ...]:
    """The claims in `text` that rest on no cell.

    Args:
        objective: the metric that a claim is about where its clause names none.
    """
    known = tuple(cells)
    return tuple(claim for claim in claims_in(text) if not any(_backs(cell, claim, objective) for cell in known))


def shown(text: str, cells: Iterable[Cell], objective: str) -> str:
    """`text` as people may be shown it: a proposer's figures that nothing bears out are kept from them."""
    return WITHHELD if untraceable(text, cells, objective) else text


def _backs(cell: Cell, claim: Claim, objective: str) -> bool:
    if claim.metric is not None:
        about = any(claim.metric.means(name) for name in cell.metrics)
    else:
        about = not cell.metrics or objective in cell.metrics
    # A hair more than the rounding: 0.25 is shown as 0.2 or as 0.3.
    slack = claim.rounding * (1 + 1e-6)
    return about and any(abs(abs(value) - claim.value) <= slack for value in _shown(cell, claim.unit))


def _shown(cell: Cell, unit: str) -> Iterator[float]:
    """What the cell comes to in `unit`; nothing where it is of another kind."""
    if cell.unit == unit or (unit == "" and cell.metrics):
        yield cell.value
    elif cell.unit == "ratio" and cell.value > 0:
        if unit == "%":
            yield from (100 * (cell.value - 1), 100 * (1 / cell.value - 1), 100 * cell.value)
        elif unit == "x":
            yield from (cell.value, 1 / cell.value)
    else:
        for scale in _SCALES:
            if cell.unit in scale and unit in scale:
                yield cell.value * scale[cell.unit] / scale[unit]
