"""Job: a request as a server feels it: when it comes, how much there is to read, how much to write. No words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.measure.records import RequestRecord

__all__ = ["Job", "jobs_seen"]


@dataclass(frozen=True, slots=True)
class Job:
    """One request. It is due at a moment, or a pause after another was answered, or (in a closed loop) when a user is
    free."""

    due_s: float | None
    "Seconds from the start of the load; None for one that follows another, and for all of a closed loop."
    prompt_tokens: int
    "Tokens to be read: those that no cache holds."
    output_tokens: int
    after: int = -1
    "Place of the job whose answer this one waits for; -1 for none. Always an earlier place."
    gap_s: float = 0.0
    "Seconds from that answer's end."


def jobs_seen(records: Sequence[RequestRecord]) -> tuple[Job, ...]:
    """The answered requests of a load as jobs that are due when they were really sent, so that a replay of the load
    differs from it by the server alone. In the order of their send.

    A request whose server doesn't tell its tokens counts with one chunk a token.
    """
    jobs = []
    for record in sorted(records, key=lambda record: record.sent_s):
        if record.outcome == "ok":
            read = max((record.prompt_tokens or 0) - (record.cached_tokens or 0), 1)
            written = max(record.output_tokens or len(record.token_times_s), 1)
            jobs.append(Job(record.sent_s, read, written))
    return tuple(jobs)
