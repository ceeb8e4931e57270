"""Does the server live at the same time as we do?"""

from __future__ import annotations

import statistics

from tools.measure.doubts.doubt import Case, Doubt

__all__ = ["clock_skew"]

_MOST_S = 60.0


def clock_skew(case: Case) -> Doubt | None:
    """A median difference of over a minute between the server's Date header and the client's clock."""
    skews_s = [record.clock_skew_s for record in case.records if record.clock_skew_s is not None]
    if not skews_s:
        return None
    median_s = statistics.median(skews_s)
    if abs(median_s) <= _MOST_S:
        return None
    way = "ahead of" if median_s > 0 else "behind"
    return Doubt(
        "clock_skew",
        True,
        f"the server's clock is {abs(median_s):,.0f} s {way} the client's: its counters and logs can't be matched with "
        "this load, and a cache in between may have answered. Set the clocks (NTP), and look at the Date header",
        {"median_clock_skew_s": median_s},
    )
