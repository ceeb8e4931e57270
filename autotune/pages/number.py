"""Numbers and texts as a page shows them."""

from __future__ import annotations

import math

__all__ = ["number", "share", "tick"]


def number(value: float | None) -> str:
    """Three significant digits without an exponent for the sizes that occur; `-` for what can't be told. A count in
    full."""
    if value is None or not math.isfinite(value):
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    if value == 0:
        return "0"
    if abs(value) >= 1e12 or abs(value) < 1e-4:
        return f"{value:.2e}"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    if abs(value) < 0.1:
        digits = 2 - math.floor(math.log10(abs(value)))
    return f"{value:,.{digits}f}"


def share(value: float | None) -> str:
    """`12.3 %` of 0.123."""
    return "-" if value is None or not math.isfinite(value) else f"{100 * value:.3g} %"


def tick(value: float) -> str:
    """A mark on an axis: short, with k, M and G for thousands, millions and milliards."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if limit <= abs(value) < 1e12:
            return f"{value / (1e3 if unit == 'k' else limit):g}{unit}"
    return f"{round(value, 12):g}"
