"""Gaps: what each gap between two tokens tells of the step behind it, and of how many sequences shared it."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.measure.records import RequestRecord
from tools.service.isotonic import isotonic

__all__ = ["Gaps", "step_table"]

_FEWEST = 5
"Gaps that a number of sequences must have been seen in to have a point of its own."
_MOST_POINTS = 12


@dataclass(frozen=True, slots=True)
class Gaps:
    """Gaps of one load in which nobody's prompt was being read, per token. Arrays are parallel."""

    sequences: NDArray[np.int64]
    "Streams that were decoding at the time, the gap's own among them."
    step_s: NDArray[np.float64]
    "The gap divided by the tokens that came at its end."

    @classmethod
    def clean(cls, records: Sequence[RequestRecord]) -> Gaps:
        """The gaps of `records` that were pure decoding.

        A gap isn't when a first token came in it or just after it (the step read the end of a prompt), nor while a
        request that had been sent waited for its first token with a seat free (its prompt was being read in chunks;
        a seat is taken to be free while fewer streams decode than ever did at once).

        Where a chunk carries several tokens and the server doesn't say how many, a request has one gap: its mean.
        """
        ok = [record for record in records if record.outcome == "ok" and record.token_times_s]
        if not ok:
            return cls(np.empty(0, np.int64), np.empty(0))
        begin, end, tokens = _spans(ok)
        firsts = np.sort([record.token_times_s[0] for record in ok])
        lasts = np.sort([record.token_times_s[-1] for record in ok])
        sent = np.sort([record.sent_s for record in ok])
        middle = (begin + end) / 2
        started = np.searchsorted(firsts, middle, side="right")
        sequences = np.maximum(started - np.searchsorted(lasts, middle, side="left"), 1)
        waiting = np.searchsorted(sent, middle, side="right") - started
        # Streams of one step are stamped one after the other, so a first token may come a little after the gap's end.
        slack = (end - begin) / tokens / 4
        entered = np.searchsorted(firsts, end + slack, side="right") - np.searchsorted(firsts, begin + slack, "right")
        most = int(sequences.max(initial=0))
        pure = (entered == 0) & ((waiting <= 0) | (sequences >= most)) & (end > begin)
        return cls(sequences[pure], ((end - begin) / tokens)[pure])


def step_table(gaps: Sequence[Gaps]) -> tuple[tuple[float, float], ...]:
    """(sequences decoding together, seconds a step): medians, made non-decreasing, at most 12 points; maybe none.

    More sequences never make a step shorter, so a dip is noise and is levelled out.
    """
    found: dict[int, list[float]] = defaultdict(list)
    for part in gaps:
        for sequences, step_s in zip(part.sequences.tolist(), part.step_s.tolist(), strict=True):
            found[sequences].append(step_s)
    counts = sorted(count for count, steps in found.items() if len(steps) >= _FEWEST) or sorted(found)
    if not counts:
        return ()
    medians = [statistics.median(found[count]) for count in counts]
    level = isotonic(medians, [len(found[count]) for count in counts])
    wanted = np.geomspace(1, len(counts), min(_MOST_POINTS, len(counts))) - 1
    places = sorted({round(place) for place in wanted.tolist()} if len(counts) > _MOST_POINTS else range(len(counts)))
    return tuple((float(counts[place]), level[place]) for place in places)


def _spans(records: Sequence[RequestRecord]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """(begin, end, tokens at the end) of every gap."""
    begin: list[float] = []
    end: list[float] = []
    tokens: list[float] = []
    for record in records:
        times = record.token_times_s
        if len(record.token_counts) == len(times):
            begin += times[:-1]
            end += times[1:]
            tokens += record.token_counts[1:]
        elif record.output_tokens and record.output_tokens > 1 and len(times) > 1:
            begin.append(times[0])
            end.append(times[-1])
            tokens.append(record.output_tokens - 1)
    return np.array(begin), np.array(end), np.array(tokens, np.float64)
