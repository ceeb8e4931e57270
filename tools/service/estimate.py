"""Estimate: a replica read off raw records directly, phase by phase; where the fit begins.

Each number comes from the load that shows it purely: the reading of a prompt from requests sent one at a time, the
seats from a burst, the steps from gaps in which nothing but decoding went on.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import combinations, pairwise

from tools.errors import UserError
from tools.measure import latency
from tools.measure.records import RequestRecord
from tools.service.curve import ServiceCurve
from tools.service.gaps import Gaps, step_table
from tools.service.jobs import jobs_seen

__all__ = ["estimate_curve", "reading_cost", "seats_seen"]


def reading_cost(probe: Sequence[RequestRecord]) -> tuple[float, float]:
    """(seconds per request, seconds per uncached prompt token) from requests that were sent one at a time.

    Theil-Sen: the slope is the median over all pairs, the intercept the median of what is left, so a few slow requests
    don't tilt the line. Where all prompts are equally long the whole time is the request's.
    """
    points = []
    for record in probe:
        seconds = latency.ttft_from_send_s(record)
        if record.outcome == "ok" and seconds is not None:
            points.append((float(max((record.prompt_tokens or 0) - (record.cached_tokens or 0), 1)), seconds))
    if not points:
        raise UserError("expected at least one answer among the requests sent one at a time, found none")
    slopes = [(y1 - y0) / (x1 - x0) for (x0, y0), (x1, y1) in combinations(points, 2) if x0 != x1]
    per_token = max(statistics.median(slopes), 0.0) if slopes else 0.0
    return max(statistics.median(y - per_token * x for x, y in points), 0.0), per_token


def seats_seen(burst: Sequence[RequestRecord], longest_read_s: float) -> tuple[int, bool]:
    """(most streams that decoded at once, whether that was the server's limit).

    It was the limit if, at that number and with requests waiting, no first token came for longer than a prompt takes
    to be read: with a seat free one would have come. Else the server might hold more, and the burst was too small to
    tell.

    Args:
        longest_read_s: seconds that the longest prompt takes to be read beside decoding sequences.
    """
    ok = [record for record in burst if record.outcome == "ok" and record.token_times_s]
    if not ok:
        raise UserError("expected at least one answer among the requests sent at once, found none")
    # At one moment the ends go first: a seat is free before it is taken.
    ends = [(record.token_times_s[-1], 0, -1) for record in ok if len(record.token_times_s) > 1]
    firsts = [(record.token_times_s[0], 1, +1) for record in ok if len(record.token_times_s) > 1]
    sitting, most = 0, 1
    levels: list[tuple[float, int]] = []
    for moment_s, _, change in sorted(ends + firsts):
        sitting += change
        most = max(most, sitting)
        levels.append((moment_s, sitting))
    last_first_s = max(record.token_times_s[0] for record in ok)
    full = any(
        level == most and later_s - moment_s > longest_read_s and later_s <= last_first_s
        for (moment_s, level), (later_s, _) in pairwise(levels)
    )
    return most, full


def estimate_curve(
    name: str, spec_digest: str, probe: Sequence[RequestRecord], burst: Sequence[RequestRecord], *others: Sequence[RequestRecord]
) -> tuple[ServiceCurve, bool]:
    """The curve that the records show at first sight, and whether its seats are a limit that was seen.

    Raises:
        UserError: no answers, or none with two tokens, so there is no step to see.
    """
    overhead_s, per_token_s = reading_cost(probe)
    steps = step_table([Gaps.clean(part) for part in (probe, burst, *others)])
    if not steps:
        raise UserError(
            "expected answers of at least two tokens, found none: the time between tokens can't be measured. "
            "Raise output_tokens in the workload"
        )
    jobs = [job for part in (burst, *others) for job in jobs_seen(part)] or list(jobs_seen(probe))
    longest = max(job.prompt_tokens for job in jobs)
    seats, full = seats_seen(burst, overhead_s + per_token_s * longest + 2 * steps[-1][1])
    curve = ServiceCurve(
        name=name,
        spec_digest=spec_digest,
        seats=seats,
        overhead_s=overhead_s,
        prefill_s_per_token=per_token_s,
        steps=steps,
        prompt_tokens=statistics.fmean(job.prompt_tokens for job in jobs),
        output_tokens=statistics.fmean(job.output_tokens for job in jobs),
    )
    return curve, full
