"""Moments: the many ways in which logs write down when something happened."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from tools.traces.logged import BadLine

__all__ = ["LogClock", "moment_s"]

_NGINX = "%d/%b/%Y:%H:%M:%S %z"
_CLOCK = re.compile(r"(?:(\d{4})-)?(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d(?:[.,]\d+)?)")
_END_S = 1e10
"In the year 2286: what lies behind it is no moment."
_HALF_YEAR_S = 180 * 86400.0
_YEAR_S = 366 * 86400.0


def moment_s(value: Any) -> float:
    """Seconds since 1970 of a number (s, ms, us or ns, told apart by size), an ISO 8601 text or nginx's local time.

    A text without a zone counts as UTC: only differences matter.

    Raises:
        BadLine: none of these.
    """
    if isinstance(value, bool) or value is None:
        raise BadLine(f"expected a moment, found {value!r}")
    if isinstance(value, int | float):
        # From 1973 on, seconds since 1970 have 9 to 10 digits, milliseconds 12 to 13, and so on.
        unit = next((unit for floor, unit in ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3)) if value >= floor), 1.0)
        if not 0 <= value / unit < _END_S:
            raise BadLine(f"expected a moment, found {value:g}")
        return value / unit
    text = str(value).strip()
    try:
        return moment_s(float(text))
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        try:
            found = datetime.strptime(text, _NGINX)
        except ValueError:
            raise BadLine(
                f"expected a moment (number, ISO 8601 or nginx's), found {len(text)} other characters"
            ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


class LogClock:
    """Reads the stamps of log lines, with or without a year. Without one, time never jumps back by half a year."""

    def __init__(self) -> None:
        self._last_s = 0.0
        self._years = 0

    def read_s(self, line: str) -> float | None:
        """Seconds on an arbitrary calendar of the first stamp in `line`; None without one."""
        match = _CLOCK.search(line)
        if match is None:
            return None
        year, month, day, hour, minute, second = match.groups()
        try:
            day_s = datetime(int(year or 2000), int(month), int(day), int(hour), int(minute), tzinfo=UTC).timestamp()
        except ValueError:
            return None
        stamp_s = day_s + float(second.replace(",", "."))
        if year:
            return stamp_s
        stamp_s += self._years * _YEAR_S  # 2000 was a leap year
        if stamp_s < self._last_s - _HALF_YEAR_S:
            self._years += 1
            stamp_s += _YEAR_S
        self._last_s = stamp_s
        return stamp_s
