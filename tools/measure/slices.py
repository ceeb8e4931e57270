"""Slices: one measurement cut into parts, each with its own numbers: the first minutes, long prompts, third turns.

A percentile of everything hides who had to wait. Slices say it, with the same definitions as the summary of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from tools.measure.intervals import Interval
from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord
from tools.measure.slo import Slo
from tools.measure.summary import summarise, summary_intervals

__all__ = ["Slice", "SliceKey", "slices"]

SliceKey = Literal["time", "turn", "prompt", "output", "cached"]
"""time: when a request was due. turn: its place in its conversation. prompt, output, cached: tokens by the server's
count; requests without a count (they failed) are in no slice of these."""

_PER_SECOND = ("request_throughput", "output_throughput", "total_token_throughput", "request_goodput")
"Meaningful for slices of time alone: the others share every second."
_WHOLE_ONLY = ("prefix_hit_rate", "duration")
"Told by counters and clocks that know no slices. Nor has a slice whole conversations, and so no `task`."

_KEYS: dict[SliceKey, Callable[[RequestRecord], float | None]] = {
    "time": lambda record: record.scheduled_s,
    "turn": lambda record: float(record.turn),
    "prompt": lambda record: record.prompt_tokens,
    "output": lambda record: record.output_tokens,
    "cached": lambda record: record.cached_tokens,
}


@dataclass(frozen=True, slots=True)
class Slice:
    """The requests whose key lies between two values, both included."""

    by: SliceKey
    low: float
    high: float
    "Of the requests that are in it: seconds, turns or tokens."
    requests: int
    summary: Mapping[str, float]
    "Flat names, as `summarise` has them; throughputs in slices of time alone."
    intervals: Mapping[str, Interval]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def slices(
    measurement: Measurement, by: SliceKey = "time", parts: int = 5, slo: Slo | None = None
) -> tuple[Slice, ...]:
    """`measurement` cut by `by`, in ascending order of it; no empty slices.

    Time is cut into `parts` of equal length, turns one by one (those from `parts` on together), tokens into parts of
    about equally many requests; requests with the same key are never parted.

    Raises:
        ValueError: an unknown key, or fewer than one part.
    """
    if by not in get_args(SliceKey) or parts < 1:
        raise ValueError(f"expected one of {', '.join(get_args(SliceKey))} and at least 1 part, found {by!r}, {parts}")
    keyed = sorted(
        ((key, record) for record in measurement.records if (key := _KEYS[by](record)) is not None),
        key=lambda pair: pair[0],
    )
    if not keyed:
        return ()
    if by == "time":
        length_s = keyed[-1][0] - keyed[0][0]
        places = [_share(key - keyed[0][0], length_s, parts) for key, _ in keyed]
    elif by == "turn":
        places = [min(int(key), parts - 1) for key, _ in keyed]
    else:
        first_of: dict[float, int] = {}
        for rank, (key, _) in enumerate(keyed):
            first_of.setdefault(key, rank)
        places = [_share(first_of[key], len(keyed), parts) for key, _ in keyed]
    grouped: dict[int, list[tuple[float, RequestRecord]]] = {}
    for place, pair in zip(places, keyed, strict=True):
        grouped.setdefault(place, []).append(pair)
    length_s = (keyed[-1][0] - keyed[0][0]) / parts if by == "time" else 0.0
    return tuple(_slice(measurement, by, group, length_s, slo) for _, group in sorted(grouped.items()))


def _share(distance: float, length: float, parts: int) -> int:
    return min(int(distance / length * parts), parts - 1) if length > 0 else 0


def _slice(
    measurement: Measurement, by: SliceKey, group: list[tuple[float, RequestRecord]], length_s: float, slo: Slo | None
) -> Slice:
    records = tuple(sorted((record for _, record in group), key=lambda record: record.index))
    # Throughput of a slice of time: what was due in it, per second of it; the tail after the last arrival is no slice.
    part = replace(measurement, records=records, offered=len(records), window_s=length_s)
    summary = {name: value for name, value in summarise(part, slo).items() if _told(name, by)}
    intervals = {name: interval for name, interval in summary_intervals(part, slo).items() if _told(name, by)}
    return Slice(by, group[0][0], group[-1][0], len(records), summary, intervals)


def _told(metric: str, by: SliceKey) -> bool:
    if metric in _WHOLE_ONLY or metric.endswith("_task_ms"):
        return False
    return by == "time" or metric not in _PER_SECOND
