"""Did something between the model and us hold answers back and hand them over all at once?"""

from __future__ import annotations

from tools.measure.doubts.doubt import Case, Doubt
from tools.measure.doubts.impossible_speed import MAX_STREAM_TOKENS_PER_S
from tools.measure.records import RequestRecord

__all__ = ["buffered"]

_MOST = 0.5
_LEAST_TOKENS = 8


def buffered(case: Case) -> Doubt | None:
    """Of most answers, all tokens came faster one after the other than any model makes them."""
    long = [record for record in case.ok if (record.output_tokens or 0) >= _LEAST_TOKENS]
    at_once = sum(_at_once(record) for record in long)
    if not at_once or at_once <= _MOST * len(long):
        return None
    return Doubt(
        "buffered",
        True,
        f"{at_once} of {len(long)} answers came in one piece at their end: time to first token is time to last token "
        "here, and the gaps between tokens say nothing. Turn off buffering and compression in what stands before the "
        "server (nginx: proxy_buffering off), or judge e2el and throughput alone",
        {"answers": len(long), "in_one_piece": at_once},
    )


def _at_once(record: RequestRecord) -> bool:
    tokens = record.output_tokens or 0
    spent_s = record.token_times_s[-1] - record.token_times_s[0] if record.token_times_s else 0.0
    return spent_s * MAX_STREAM_TOKENS_PER_S < tokens - 1
