"""Did the prefix cache hit as often as the workload's own sharing allows, and no more?"""

from __future__ import annotations

from tools.measure.doubts.doubt import Case, Doubt
from tools.measure.workload import sharing_bound

__all__ = ["prefix_hits"]

_TOLERANCE = 0.02
_FAR_BELOW = 0.5
_WORTH_SHARING = 0.1
"Declared sharing below which a missed cache changes little."


def prefix_hits(case: Case) -> Doubt | None:
    """INVALID above the most that an honest cache can hit; a warning far below what the workload declares.

    The rate is the larger of the server's counters and its `cached_tokens`: neither can hide what the other shows.
    """
    if case.workload is None:
        return None
    bound = sharing_bound(case.workload, case.records)
    rates = [rate for rate in (case.summary.get("prefix_hit_rate"), _told_by_answers(case)) if rate is not None]
    if bound is None or not rates:
        return None
    rate = max(rates)
    evidence = {"prefix_hit_rate": rate, "sharing_bound": bound, "declared_sharing": case.workload.declared_sharing}
    if rate > bound + _TOLERANCE:
        return Doubt(
            "prefix_hits",
            True,
            f"the cache was warm: {rate:.1%} of the prompt tokens came from it, and requests of this workload share at "
            f"most {bound:.1%}. Reset the cache, or take a seed that this server hasn't seen",
            evidence,
        )
    declared = min(case.workload.declared_sharing, bound)
    at_once = case.workload.spec.arrivals.kind == "burst"
    if declared > _WORTH_SHARING and rate < _FAR_BELOW * declared and not at_once:
        return Doubt(
            "prefix_hits",
            False,
            f"{rate:.1%} of the prompt tokens came from the cache, and requests of this workload share {declared:.1%}: "
            "prefix caching is off, its cache too small, or replicas don't get the requests that share",
            evidence,
        )
    return None


def _told_by_answers(case: Case) -> float | None:
    told = [(r.cached_tokens, r.prompt_tokens) for r in case.ok if r.cached_tokens is not None and r.prompt_tokens]
    total = sum(prompt for _, prompt in told if prompt is not None)
    return sum(cached for cached, _ in told if cached is not None) / total if total else None
