"""Pictures of one load's requests: the waterfall, and arrivals, queue and tokens over time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import accumulate

from autotune.pages.chart import Chart
from autotune.pages.number import number
from autotune.pages.points import Point
from autotune.pages.scale import Scale
from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord

__all__ = ["MOST_ROWS", "arrivals", "in_flight", "tokens", "waterfall"]

MOST_ROWS = 300
_BINS = 60
_TIME = "seconds into the load"
_LATE_S = 0.05  # a send later than that can be seen


def waterfall(measurement: Measurement) -> str:
    """Each request as a bar from when it was due to its end, in order; evenly chosen where there are more than fit.

    Grey until it was sent, ochre until its first token, green until its last; one that wasn't answered ends in the
    colour of its outcome.
    """
    ordered = sorted(measurement.records, key=lambda record: (record.scheduled_s, record.index))
    rows = min(len(ordered), MOST_ROWS)
    shown = [ordered[row * len(ordered) // rows] for row in range(rows)]
    if not shown:
        return ""
    x = Scale.span([record.end_s for record in shown] + [record.scheduled_s for record in shown])
    height = 64 + round(rows * min(14.0, max(2.4, 420 / rows)))
    title = f"Waterfall of {rows} of {len(ordered)} requests"
    names = (_TIME, "requests, the first at the top")
    chart = Chart(title, x, Scale(0.0, float(rows)), names, height=height, y_ticks=False)
    for row, record in enumerate(shown):
        up = (rows - row - 0.9, rows - row - 0.1)
        for start, end, ink in _phases(record):
            chart.box((start, end), up, ink, title=_told(record))
    chart.legend("due, not sent", "grey", "box")
    chart.legend("sent, waiting for the first token", "ochre", "box")
    chart.legend("decoding", "green", "box")
    for outcome, ink, text in (("timed_out", "violet", "timed out"), ("failed", "rust", "failed")):
        if any(record.outcome == outcome for record in shown):
            chart.legend(text, ink, "box")
    return chart.svg()


def arrivals(measurement: Measurement) -> str:
    """Requests per second: due, sent and answered."""
    records = measurement.records
    width_s, x = _bins(measurement)
    due = _per_second([(record.scheduled_s, 1.0) for record in records], width_s, x.high)
    sent = _per_second([(record.sent_s, 1.0) for record in records], width_s, x.high)
    done = _per_second([(record.end_s, 1.0) for record in records if record.outcome == "ok"], width_s, x.high)
    y = Scale.linear([rate for _, rate in (*due, *sent, *done)])
    chart = Chart("Requests due, sent and answered per second", x, y, (_TIME, "requests/s"), height=240)
    chart.area(due, "grey", key="due")
    chart.step(sent, "blue", key="sent")
    chart.step(done, "green", key="answered")
    return chart.svg()


def in_flight(measurement: Measurement) -> str:
    """How many requests were sent and not done, and how many of those had no token yet: means over short times."""
    width_s, x = _bins(measurement)
    records = measurement.records
    flying = _mean_level(((record.sent_s, record.end_s) for record in records), width_s, x.high)
    waiting = _mean_level(((record.sent_s, _first_token_s(record)) for record in records), width_s, x.high)
    unsent = _mean_level(((record.scheduled_s, record.sent_s) for record in records), width_s, x.high)
    y = Scale.linear([level for _, level in (*flying, *unsent)])
    chart = Chart("Requests in flight over the load", x, y, (_TIME, "requests"), height=240)
    chart.area(flying, "blue", key="in flight")
    chart.step(waiting, "ochre", key="waiting for the first token")
    if any(record.sent_s - record.scheduled_s > _LATE_S for record in records):
        chart.step(unsent, "rust", key="due, not sent")
    return chart.svg()


def tokens(measurement: Measurement) -> str:
    """Output tokens per second, at the moments that they arrived."""
    width_s, x = _bins(measurement)
    rates = _per_second((pair for record in measurement.records for pair in _arrived(record)), width_s, x.high)
    y = Scale.linear([rate for _, rate in rates])
    chart = Chart("Output tokens per second over the load", x, y, (_TIME, "tokens/s"), height=240)
    chart.area(rates, "green", key="output tokens/s")
    return chart.svg()


def _phases(record: RequestRecord) -> Iterable[tuple[float, float, str]]:
    stamps = record.token_times_s
    yield record.scheduled_s, record.sent_s, "grey"
    if record.outcome == "ok" and stamps:
        yield record.sent_s, stamps[0], "ochre"
        yield stamps[0], stamps[-1], "green"
        return
    ink = {"ok": "ochre", "timed_out": "violet", "failed": "rust"}[record.outcome]
    if stamps:
        yield record.sent_s, stamps[0], "ochre"
        yield stamps[0], stamps[-1], "green"
        yield stamps[-1], record.end_s, ink
    else:
        yield record.sent_s, record.end_s, ink


def _told(record: RequestRecord) -> str:
    stamps = record.token_times_s
    parts = [f"request {record.index}: due {number(record.scheduled_s)} s"]
    if stamps:
        parts.append(f"first token after {number(1000 * (stamps[0] - record.scheduled_s))} ms")
        parts.append(f"last after {number(1000 * (stamps[-1] - record.scheduled_s))} ms")
    if record.output_tokens is not None:
        parts.append(f"{record.output_tokens} tokens")
    return ", ".join(parts) + (f"; {record.error[:80]}" if record.outcome != "ok" else "")


def _first_token_s(record: RequestRecord) -> float:
    return record.token_times_s[0] if record.token_times_s else record.end_s


def _arrived(record: RequestRecord) -> Iterable[tuple[float, float]]:
    """(moment, tokens) of each chunk; evenly shared out where the server tells only the total."""
    stamps, counts = record.token_times_s, record.token_counts
    if len(counts) == len(stamps):
        return zip(stamps, map(float, counts), strict=True)
    each = (record.output_tokens or len(stamps)) / max(len(stamps), 1)
    return ((stamp, each) for stamp in stamps)


def _bins(measurement: Measurement) -> tuple[float, Scale]:
    """The width of a bin in seconds, and the axis of the load's time."""
    ends = [time for record in measurement.records for time in (record.scheduled_s, record.end_s)]
    x = Scale.span([*ends, measurement.window_s])
    return x.high / _BINS, x


def _per_second(events: Iterable[tuple[float, float]], width_s: float, end_s: float) -> list[Point]:
    """Sums of the events' weights in bins, per second; a point at each bin's start and one at the end."""
    sums = [0.0] * (math.ceil(end_s / width_s) + 1)
    for moment, weight in events:
        sums[min(max(int(moment / width_s), 0), len(sums) - 1)] += weight
    return [(index * width_s, total / width_s) for index, total in enumerate(sums)]


def _mean_level(spans: Iterable[tuple[float, float]], width_s: float, end_s: float) -> list[Point]:
    """How many spans cover a moment, as the mean over each bin: exact, as every span adds its share of the bin."""
    seconds = [0.0] * (math.ceil(end_s / width_s) + 1)
    slope = [0.0] * (len(seconds) + 1)  # whole bins, as the differences from one to the next
    for start, end in spans:
        start, end = max(start, 0.0), min(end, end_s)
        if not end > start:
            continue
        first, last = (min(int(moment / width_s), len(seconds) - 1) for moment in (start, end))
        if first == last:
            seconds[first] += end - start
        else:
            seconds[first] += (first + 1) * width_s - start
            seconds[last] += end - last * width_s
            slope[first + 1] += width_s
            slope[last] -= width_s
    whole = accumulate(slope)
    return [
        (index * width_s, (own + full) / width_s) for index, (own, full) in enumerate(zip(seconds, whole, strict=False))
    ]
