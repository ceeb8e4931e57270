"""Was every offered request answered for, and do client and server agree on the tokens?"""

from __future__ import annotations

from tools.measure.measurement import Measurement
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "accounting.balance"
_HIT_SLACK = 0.01
"One percentage point over the declared sharing."


def verify(evidence: Evidence) -> Verdict:
    """offered = completed + failed + timed out; token counts agree; no more prefix hits than the workload shares."""
    measured = [trial for trial in evidence.trials if trial.measurement]
    if not measured:
        return error(RULE, "no trial was measured")
    if len({trial.measurement.extras for trial in measured if trial.measurement}) > 1:
        return failed(RULE, "the trials were driven with different extensions of the API", *measured)
    for trial in measured:
        problem = _problem(trial)
        if problem:
            return failed(RULE, f"trial {trial.id}: {problem}", trial)
    total = sum(trial.measurement.offered for trial in measured if trial.measurement)
    return passed(RULE, f"all {total} requests are accounted for, client and server agree on every token", *measured)


def _problem(trial: TrialEvidence) -> str:
    m = trial.measurement
    assert m is not None
    if m.offered != len(trial.asked_tokens):
        return f"{m.offered} requests were offered, the workload has {len(trial.asked_tokens)}"
    indexes = [record.index for record in m.records]
    if len(set(indexes)) != len(indexes) or not set(indexes) <= set(range(m.offered)):
        return "a request was recorded twice, or was never offered"
    missing = m.offered - m.completed - m.failed - m.timed_out
    if missing:
        return f"{missing} of {m.offered} requests are unaccounted for"
    if m.completed == 0:
        return "no request was completed"
    return _lengths(m, trial.asked_tokens) or _tokens(m) or _prompts(m) or _prefix_hits(m, trial.declared_sharing)


def _lengths(m: Measurement, asked: tuple[int, ...]) -> str:
    """Answers cut short look fast; where `ignore_eos` is in force each has exactly the length asked for."""
    for record in m.records:
        if record.outcome != "ok" or record.output_tokens is None:
            continue
        streamed = sum(record.token_counts)
        if record.token_counts and record.output_tokens != streamed:
            return f"request {record.index} streamed {streamed} tokens, its usage says {record.output_tokens}"
        if "ignore_eos" in m.extras and record.output_tokens != asked[record.index]:
            return f"request {record.index} asked for {asked[record.index]} tokens, it got {record.output_tokens}"
    return ""


def _tokens(m: Measurement) -> str:
    client = sum(record.output_tokens or 0 for record in m.records)
    server = m.counted("generation_tokens")
    all_done = m.completed == m.offered
    if server is None:
        return "the server doesn't count its generated tokens"
    if (all_done and server != client) or server < client:
        return f"the server counted {server:.0f} generated tokens, the client {client}"
    return ""


def _prompts(m: Measurement) -> str:
    """A server that cuts a prompt short has fewer tokens of it to count."""
    client = sum(record.prompt_tokens or 0 for record in m.records)
    server = m.counted("prompt_tokens")
    if server is None:
        return "the server doesn't count its prompt tokens"
    if m.completed == m.offered and server != client:
        return f"the server counted {server:.0f} prompt tokens, its answers say {client}"
    return ""


def _prefix_hits(m: Measurement, declared: float | None) -> str:
    queries, hits = m.counted("prefix_queries_tokens"), m.counted("prefix_hit_tokens")
    if queries is None or hits is None:
        return "the server doesn't count its prefix hits"
    if declared is None:
        return "no request tells its prompt tokens"
    if queries and hits / queries > declared + _HIT_SLACK:
        return f"prefix-hit rate {hits / queries:.1%}, but the workload shares only {declared:.1%}"
    return ""
