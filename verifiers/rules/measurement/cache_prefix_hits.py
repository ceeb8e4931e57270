"""Did the prefix cache hit no more than the workload shares?"""

from __future__ import annotations

from tools.measure.measurement import Measurement
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "cache.prefix_hits"
_SLACK = 0.01
"One percentage point over what the workload shares."


def verify(evidence: Evidence) -> Verdict:
    """The hit rate of each trial, against the most that an honest cache can reach on that workload: a cache that was
    warm from earlier requests has more.

    The rate is the larger of the server's counters and the `cached_tokens` of its answers: neither can hide what the
    other shows.
    """
    if not evidence.measured:
        return error(RULE, "no trial was measured")
    highest = (0.0, 0.0)
    for trial, measured in evidence.measured:
        queries, hits = measured.counted("prefix_queries_tokens"), measured.counted("prefix_hit_tokens")
        counts = evidence.counts("prefix_queries_tokens") and evidence.counts("prefix_hit_tokens")
        if counts and (queries is None or hits is None):
            return error(RULE, f"the server of trial {trial.id} doesn't count its prefix hits", trial)
        if trial.declared_sharing is None:
            return error(RULE, f"no request of trial {trial.id} tells its prompt tokens", trial)
        rate = max(_told_by_answers(measured), hits / queries if hits is not None and queries else 0.0)
        if not rate <= trial.declared_sharing + _SLACK:
            told = f"prefix-hit rate {rate:.1%}, but the workload shares only {trial.declared_sharing:.1%}"
            return failed(RULE, f"trial {trial.id}: {told}: its cache was warm", trial)
        highest = max(highest, (rate, trial.declared_sharing))
    told = f"the highest prefix-hit rate is {highest[0]:.1%}, where the workload shares {highest[1]:.1%}"
    return passed(RULE, told, *evidence.trials)


def _told_by_answers(measured: Measurement) -> float:
    told = [(r.cached_tokens, r.prompt_tokens) for r in measured.records if r.cached_tokens and r.prompt_tokens]
    total = sum(record.prompt_tokens or 0 for record in measured.records)
    return sum(cached or 0 for cached, _ in told) / total if total else 0.0
