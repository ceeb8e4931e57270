"""Durations as options say them: `90s`, `15m`, `1.5h`, `30d`."""

from __future__ import annotations

import re

from tools.errors import UserError

__all__ = ["parse_seconds"]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_seconds(option: str, text: str, *, zero: bool = False) -> float:
    """Seconds of `text`, the value of `option`.

    Args:
        zero: whether no time at all is a value too.

    Raises:
        UserError: not a duration, or none at all.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|d)", text.strip())
    if match is None or (float(match[1]) == 0 and not zero):
        raise UserError(f"{option}: expected a duration like 90s, 15m, 1.5h or 30d, found {text!r}")
    return float(match[1]) * _UNITS[match[2]]
