"""Latencies of one request, from its raw record. Every time in a summary or an SLO comes from these few lines.

`ttft` and `e2el` start when the request was *due*, so that waiting in a slow client or behind a full server counts
(no coordinated omission). In a closed loop a request is due when its user is free, a moment before it is sent. The
`*_from_send` variants start at the send: they compare with other tools' numbers, and no promise is judged by them.

A request that timed out counts with the time it had waited when it was given up, a lower bound of the truth: leaving
it out would make a server look faster the more requests it fails to answer.
"""

from __future__ import annotations

from itertools import pairwise

from tools.measure.records import RequestRecord

__all__ = ["e2el_from_send_s", "e2el_s", "itl_s", "itl_tok_s", "tpot_s", "ttft_from_send_s", "ttft_s"]


def ttft_s(record: RequestRecord) -> float | None:
    """Due to first token-bearing chunk, in seconds. None for a failed request: it has no such moment to trust."""
    return _since(record.scheduled_s, record, _first_token_s(record))


def ttft_from_send_s(record: RequestRecord) -> float | None:
    """Send to first token-bearing chunk, in seconds."""
    return _since(record.sent_s, record, _first_token_s(record))


def e2el_s(record: RequestRecord) -> float | None:
    """Due to last token-bearing chunk, in seconds (time to last token). None for a failed request."""
    return _since(record.scheduled_s, record, _last_token_s(record))


def e2el_from_send_s(record: RequestRecord) -> float | None:
    """Send to last token-bearing chunk, in seconds."""
    return _since(record.sent_s, record, _last_token_s(record))


def tpot_s(record: RequestRecord) -> float | None:
    """(last token - first token) / (output tokens - 1), in seconds; the server's count of tokens.

    None for a failed request and where one token or none came. A request that timed out is still waiting for its next
    token: the wait so far is one more gap.
    """
    times = record.token_times_s
    if record.outcome == "failed" or not times:
        return None
    if record.outcome == "timed_out":
        return (record.end_s - times[0]) / max(sum(record.token_counts), len(times))
    if record.output_tokens is None or record.output_tokens <= 1:
        return None
    return (times[-1] - times[0]) / (record.output_tokens - 1)


def itl_s(record: RequestRecord) -> tuple[float, ...]:
    """Gaps between successive token-bearing chunks, in seconds: one sample per chunk, as vLLM counts them."""
    if record.outcome == "failed" or not record.token_times_s:
        return ()
    times = record.token_times_s
    if record.outcome == "timed_out":
        times = (*times, record.end_s)
    return tuple(later - earlier for earlier, later in pairwise(times))


def itl_tok_s(record: RequestRecord) -> tuple[float, ...]:
    """Each gap divided by the tokens that came with the chunk after it, in seconds per token.

    Empty where the server doesn't tell how many tokens a chunk carries.
    """
    if record.outcome != "ok" or len(record.token_counts) != len(record.token_times_s):
        return ()
    return tuple(gap / tokens for gap, tokens in zip(itl_s(record), record.token_counts[1:], strict=True))


def _first_token_s(record: RequestRecord) -> float | None:
    return record.token_times_s[0] if record.token_times_s else None


def _last_token_s(record: RequestRecord) -> float | None:
    return record.token_times_s[-1] if record.token_times_s and record.outcome == "ok" else None


def _since(start_s: float, record: RequestRecord, moment_s: float | None) -> float | None:
    if record.outcome == "failed":
        return None
    if moment_s is None:
        return record.end_s - start_s if record.outcome == "timed_out" else None
    return moment_s - start_s
