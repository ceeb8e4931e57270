"""Are tokens handed over as they are made, or held back and bunched so that latencies look good?"""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

from scipy.stats import fisher_exact

from tools.measure.records import RequestRecord
from verifiers.evidence import Evidence
from verifiers.sides import Measured, sides
from verifiers.verdict import Verdict, error, failed, inconclusive, passed

RULE = "delivery.gaps"
_HELD_BACK = 0.5
"""Share of gaps, more than the baseline's, that only holding back explains: a client with little time to read finds
two chunks at once in a quarter of its reads."""
_STALLED = 0.1
"Share of answers, more than the baseline's, below which nobody need care."
_MOST_PER_CHUNK = 1.5
"Times the baseline's tokens per chunk."
_STALL_S = 1.0
"A pause within an answer that a person notices."
_SURE = 0.001
_UNWATCHED = ("data-processor", "background-agent")
"Workloads in which nobody watches the tokens come."


def verify(evidence: Evidence) -> Verdict:
    """Each answer's stamps are in order, so that TTFT and the gaps between tokens add up to E2E. Against the baseline,
    there aren't more tokens a chunk (at worst the whole answer), more gaps shorter than the machine can make a token in
    (what was held back comes at once), nor more answers that stall for over a second."""
    if not evidence.measured:
        return error(RULE, "no trial was measured")
    for trial, measured in evidence.measured:
        for record in measured.records:
            problem = _disorder(record)
            if problem:
                return failed(RULE, f"trial {trial.id}: request {record.index} {problem}", trial)
    if "tpot_ms" not in evidence.floors_ms and not evidence.no_physics:
        return error(RULE, "how fast the machine can make a token is unknown")
    both = sides(evidence)
    if both.unpaired:
        return inconclusive(RULE, "there is no baseline to compare the delivery with", *both.trials)
    before, after = _answers(both.baseline), _answers(both.candidate)
    if not before or (both.candidate and not after):
        return error(RULE, "one side has no answer with stamps", *both.trials)
    if not both.candidate:
        return passed(RULE, f"the stamps of {len(before)} answers are in order; no other side to compare", *both.trials)
    problem = _worse(evidence, before, after)
    if problem:
        return failed(RULE, f"delivery is not the baseline's: {problem}", *both.trials)
    (chunk, worst), (usual, usual_worst) = ((_per_chunk(side), max(map(_longest, side))) for side in (after, before))
    told = f"{chunk:.2f} tokens a chunk (baseline {usual:.2f}), longest pause {worst:.3f} s ({usual_worst:.3f} s)"
    return passed(RULE, f"tokens come as they are made: {told}", *both.trials)


def _worse(evidence: Evidence, before: list[RequestRecord], after: list[RequestRecord]) -> str:
    usual, chunk = _per_chunk(before), _per_chunk(after)
    if chunk > _MOST_PER_CHUNK * usual:
        return f"a chunk carries {chunk:.2f} tokens, the baseline's {usual:.2f}"
    floor_s = evidence.floors_ms.get("tpot_ms", 0.0) / 1000
    too_quick = f"gaps are shorter than the {1000 * floor_s:.2g} ms that the machine needs for a token"
    quick = [[gap < floor_s for record in side for gap in _gaps(record)] for side in (before, after)]
    tests = [(too_quick, _HELD_BACK, quick[0], quick[1])]
    if evidence.deployment.workload.workload_class not in _UNWATCHED:
        stalls = [[_longest(record) > _STALL_S for record in side] for side in (before, after)]
        tests.append((f"answers stall for over {_STALL_S:g} s", _STALLED, stalls[0], stalls[1]))
    for what, least, theirs, ours in tests:
        if _more(theirs, ours, least):
            return f"{fmean(ours):.0%} of its {what}, {fmean(theirs):.0%} of the baseline's"
    return ""


def _disorder(record: RequestRecord) -> str:
    """Why the stamps of a record can't have happened; then TTFT and the gaps don't add up to E2E."""
    times = record.token_times_s
    if not times:
        return ""
    if any(later < earlier for earlier, later in pairwise(times)):
        return "got a token before the one before it"
    if times[0] < record.sent_s:
        return f"got its first token {record.sent_s - times[0]:.3f} s before it was sent"
    if record.first_chunk_s is not None and record.first_chunk_s > times[0]:
        return f"got its first token {record.first_chunk_s - times[0]:.3f} s before its first chunk"
    if times[-1] > record.end_s:
        return f"got its last token {times[-1] - record.end_s:.3f} s after its end"
    return ""


def _answers(side: tuple[Measured, ...]) -> list[RequestRecord]:
    return [r for _, measured in side for r in measured.records if r.outcome == "ok" and r.token_times_s]


def _per_chunk(side: list[RequestRecord]) -> float:
    return fmean((record.output_tokens or 0) / len(record.token_times_s) for record in side)


def _longest(record: RequestRecord) -> float:
    return max(_gaps(record), default=0.0)


def _gaps(record: RequestRecord) -> list[float]:
    return [later - earlier for earlier, later in pairwise(record.token_times_s)]


def _more(before: list[bool], after: list[bool], least: float) -> bool:
    """Whether a larger share of `after` is true: beyond chance by Fisher's exact test, and by `least`."""
    if not before or not after or fmean(after) - fmean(before) <= least:
        return False
    table = [[sum(after), len(after) - sum(after)], [sum(before), len(before) - sum(before)]]
    return bool(fisher_exact(table, alternative="greater").pvalue < _SURE)
