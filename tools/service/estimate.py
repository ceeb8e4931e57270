"""Estimate: a replica read off raw records directly, phase by phase; where the fit begins.

Each number comes from the load that shows it purely: the reading of a prompt from requests sent one at a time, the
seats from a burst, the steps from gaps in which nothing but decoding went on.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import accumulate, combinations, pairwise

from tools.errors import UserError
from tools.measure import latency
from tools.measure.records import RequestRecord
from tools.service.curve import ServiceCurve
from tools.service.gaps import Gaps, step_table
from tools.service.jobs import jobs_seen

__all__ = ["estimate_curve", "most_at_once", "reading_cost"]


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


def most_at_once(first_s: Sequence[float], last_s: Sequence[float], shortest_s: float = 0.0) -> int:
    """The most streams that decoded at one moment: from their first to their last tokens.

    Args:
        shortest_s: how long a number of streams must have lasted to count. Two streams whose bytes are read in one go
            may be stamped in the wrong order, and seem to overlap for a moment.
    """
    # At one moment the ends go first: a seat is free before it is taken.
    changes = sorted([(moment_s, -1) for moment_s in last_s] + [(moment_s, +1) for moment_s in first_s])
    levels = list(accumulate(change for _, change in changes))
    lasted = (later[0] - earlier[0] for earlier, later in pairwise(changes))
    return max((level for level, span_s in zip(levels, lasted, strict=False) if span_s > shortest_s), default=1)


def estimate_curve(
    name: str,
    spec_digest: str,
    probe: Sequence[RequestRecord],
    burst: Sequence[RequestRecord],
    *others: Sequence[RequestRecord],
) -> ServiceCurve:
    """The curve that the records show at first sight. Its seats are the most that were taken at once, whether or not
    the server has more.

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
    seats = max(_most_decoding(part) for part in (burst, *others))
    if seats > 1 and len(steps) == 1:
        steps = (*steps, (float(seats), max(_quickest_crowd_s((burst, *others)), steps[0][1])))
    return ServiceCurve(
        name=name,
        spec_digest=spec_digest,
        seats=seats,
        overhead_s=overhead_s,
        prefill_s_per_token=per_token_s,
        steps=steps,
        prompt_tokens=statistics.fmean(job.prompt_tokens for job in jobs),
        output_tokens=statistics.fmean(job.output_tokens for job in jobs),
    )


def _most_decoding(records: Sequence[RequestRecord]) -> int:
    long = [record.token_times_s for record in records if record.outcome == "ok" and len(record.token_times_s) > 1]
    if not long:
        return 1
    usual_s = statistics.median(later - earlier for times in long for earlier, later in pairwise(times))
    return most_at_once([times[0] for times in long], [times[-1] for times in long], usual_s / 4)


def _quickest_crowd_s(loads: Sequence[Sequence[RequestRecord]]) -> float:
    """Seconds per token of the streams that were least held up. Where no gap was pure decoding (a server that sends
    many tokens at once and doesn't say how many) this is where the fit begins for many sequences."""
    paces = [pace for part in loads for record in part if (pace := latency.tpot_s(record)) is not None]
    return statistics.quantiles(paces, n=10)[0] if len(paces) > 1 else 0.0
