"""The measurement rules: an honest story passes each, every lie fails with its numbers, what is missing is no PASS."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.verifiers.conftest import Confirmation, with_measurement
from tools.canonical import digest
from tools.measure import ClientHealth, Measurement, RequestRecord
from tools.measure.floor import Floor
from verifiers import Evidence, Rule, TrialEvidence, Verdict
from verifiers.rules.measurement import RULES

BY_ID = {rule.id: rule for rule in RULES}

Tell = Callable[[RequestRecord], RequestRecord]


def asked(rule: str, evidence: Evidence) -> Verdict:
    return BY_ID[rule].verify(evidence)


def measured(evidence: Evidence, index: int = 0) -> Measurement:
    measurement = evidence.trials[index].measurement
    assert measurement is not None
    return measurement


def altered(evidence: Evidence, index: int = 0, **changes: Any) -> Evidence:
    """The evidence with trial `index` measured otherwise, its summary following."""
    trials = list(evidence.trials)
    trials[index] = with_measurement(trials[index], evidence.deployment, **changes)
    return replace(evidence, trials=tuple(trials))


def retold(evidence: Evidence, index: int = 0, **changes: Any) -> Evidence:
    """The evidence with fields of trial `index` itself changed."""
    trials = list(evidence.trials)
    trials[index] = replace(trials[index], **changes)
    return replace(evidence, trials=tuple(trials))


def each_record(evidence: Evidence, tell: Tell, arm: str = "B", only: int | None = None) -> Evidence:
    """The evidence with every record of an arm (or of its request `only`) told otherwise."""
    for index, trial in enumerate(evidence.trials):
        if trial.arm == arm:
            told = tuple(tell(r) if only in (None, r.index) else r for r in measured(evidence, index).records)
            evidence = altered(evidence, index, records=told, window_s=max(r.end_s for r in told))
    return evidence


def counting(evidence: Evidence, index: int = 0, **counters: float) -> Evidence:
    """The evidence with counters of trial `index` standing elsewhere after the load."""
    return altered(evidence, index, counters_after={**(measured(evidence, index).counters_after or {}), **counters})


def single(evidence: Evidence, arm: str = "B") -> Evidence:
    """A trial of the search by itself, as its stage sees it."""
    trial = replace(evidence.arm(arm)[0], role="search" if arm == "B" else "baseline", block=None)
    return evidence.about([trial])


def without(evidence: Evidence, name: str) -> Evidence:
    """The evidence of a server that doesn't tell a counter."""
    for index in range(len(evidence.trials)):
        before, after = measured(evidence, index).counters_before or {}, measured(evidence, index).counters_after or {}
        rest = [{key: value for key, value in side.items() if key != name} for side in (before, after)]
        evidence = altered(evidence, index, counters_before=rest[0], counters_after=rest[1])
    return evidence


def refused(record: RequestRecord, error: str, status: int | None = 200) -> RequestRecord:
    silent = replace(record, outcome="failed", error=error, http_status=status, token_times_s=(), token_counts=())
    return replace(silent, token_ids=(), output_tokens=None, prompt_tokens=None, finish_reason=None)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_honest_story_passes_and_no_story_does_not(confirmation: Confirmation, rule: Rule) -> None:
    evidence = confirmation()
    for honest in (evidence, single(evidence, "A"), single(evidence, "B")):
        verdict = rule.verify(honest)
        assert verdict.status == "PASS", verdict.sentence
        assert verdict.rule == rule.id and verdict.evidence
    assert rule.verify(evidence.about(())).status == "ERROR"
    crashed = [replace(trial, measurement=None, failure="oom", summary={}) for trial in evidence.trials]
    if rule.id != "environment.same":  # a crash happens somewhere too
        assert rule.verify(evidence.about(crashed)).status == "ERROR"


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scale=st.floats(0.5, 2.0), noise=st.lists(st.floats(0.9, 1.1), min_size=8, max_size=8))
def test_honest_gains_and_losses_of_any_size_pass_every_rule(
    confirmation: Confirmation, scale: float, noise: list[float]
) -> None:
    evidence = confirmation(tuple(0.4 * n for n in noise[:4]), tuple(0.4 * scale * n for n in noise[4:]))
    assert {rule.id: rule.verify(evidence).status for rule in RULES} == {rule.id: "PASS" for rule in RULES}


LIES: dict[str, list[tuple[str, str, Callable[[Evidence], Evidence]]]] = {
    "units.consistent": [
        ("FAIL", "off by 1000", lambda e: claiming(e, lambda m: {**m, "mean_ttft_ms": m["mean_ttft_ms"] / 1000})),
        (
            "FAIL",
            "off by 1024",
            lambda e: claiming(e, lambda m: {**m, "output_throughput": m["output_throughput"] * 1024}),
        ),
        (
            "FAIL",
            "off by a factor of 1.5",
            lambda e: claiming(e, lambda m: {**m, "mean_ttft_ms": m["mean_ttft_ms"] / 1.5}),
        ),
        (
            "FAIL",
            "leaves out mean_ttft_ms",
            lambda e: claiming(e, lambda m: {k: m[k] for k in m if k != "mean_ttft_ms"}),
        ),
        ("FAIL", "don't give", lambda e: claiming(e, lambda m: {**m, "p99_ttft_ms": 1.0})),
        ("ERROR", "claims no summary", lambda e: claiming(e, lambda m: {})),
        ("FAIL", "the whole measurement took", lambda e: altered(e, window_s=measured(e).window_s / 1000)),
        ("FAIL", "is -", lambda e: each_record(e, lambda r: replace(r, scheduled_s=1000 * (r.scheduled_s + 1)), "A")),
        ("FAIL", "bytes or characters", lambda e: retold(e, asked_tokens=(2,) * 10)),
    ],
    "environment.same": [
        ("FAIL", "2 different environments: other", lambda e: retold(e, environment="other")),
        ("FAIL", "for b1", lambda e: replace(e, search=(replace(e.search[0], environment="last month"),))),
        ("ERROR", "unknown", lambda e: retold(e, environment="")),
    ],
    "workload.same": [
        ("FAIL", "another workload", lambda e: retold(e, spec_digest="easier")),
        ("FAIL", "another workload", lambda e: retold(e, load_factor=0.5)),
        ("FAIL", "the workload has 10", lambda e: altered(e, offered=9, records=measured(e).records[:9])),
        ("FAIL", "stopped before its end", lambda e: altered(e, cut_short=True)),
        ("FAIL", "the workload says 0.200", lambda e: each_record(e, lambda r: shifted(r, 2 * r.scheduled_s), "A")),
        ("FAIL", "different extensions", lambda e: altered(e, 1, extras=())),
        ("FAIL", "different requests", lambda e: altered(e, 1, workload_digest="others")),
        ("ERROR", "schedule", lambda e: retold(e, due_s=())),
    ],
    "identity.process": [
        ("FAIL", "started anew", lambda e: serving(e, after={"started_at": 1.8e9})),
        ("FAIL", "process 7 ended", lambda e: serving(e, after={"pid": 7})),
        (
            "FAIL",
            "did not start",
            lambda e: serving(e, before={"process_started_at": 5.0}, after={"process_started_at": 5.0}),
        ),
        ("FAIL", "2 engines", lambda e: serving(e, before={"engine": "proxy 1"})),
        ("FAIL", "trials c0 and c3 were answered by one launch", lambda e: same_launch(e, 0, 3)),
        ("ERROR", "wasn't identified", lambda e: altered(e, identity_after=None)),
        ("ERROR", "operating system", lambda e: serving(e, before={"process_started_at": 0.0})),
    ],
    "identity.config": [
        ("FAIL", "max_num_seqs=2, the server runs with 8", lambda e: running(e, max_num_seqs=8)),
        ("FAIL", "doesn't report", lambda e: running(e, max_num_seqs=None)),
        ("FAIL", "num_threads=4, the server runs with 2", lambda e: set_by_hand(e, num_threads=4)),
        ("FAIL", "changed while", lambda e: serving(e, after={"config": {"max_num_seqs": 9}})),
        ("FAIL", "another config than was launched", lambda e: altered(e, config_digest="d" * 64)),
        ("ERROR", "doesn't report its config", lambda e: serving(e, before={"config": {}}, after={"config": {}})),
        ("ERROR", "wasn't identified", lambda e: altered(e, identity_before=None)),
    ],
    "identity.sources": [
        ("FAIL", "state different configs: metrics xxxx", lambda e: serving(e, before={"config_digest": "x" * 64})),
        ("FAIL", "state different configs", lambda e: serving(e, after={"config_digest": "x" * 64})),
        ("ERROR", "one source alone", lambda e: serving(e, before={"config_digest": ""})),
        ("ERROR", "wasn't identified", lambda e: altered(e, identity_after=None)),
    ],
    "identity.model": [
        ("FAIL", "digest small, expected mmm", lambda e: serving(e, before={"model_digest": "small"})),
        ("FAIL", "another model", lambda e: serving(e, after={"model_digest": "small"})),
        ("FAIL", "different models: alias, tiny", lambda e: serving(e, before={"model": "alias"})),
        ("ERROR", "unknown", lambda e: replace(e, model_digest="")),
        ("ERROR", "unknown", lambda e: serving(e, before={"model_digest": ""})),
    ],
    "accounting.balance": [
        ("FAIL", "1 of 10 requests are unaccounted for", lambda e: altered(e, records=measured(e).records[:-1])),
        (
            "FAIL",
            "request 0 was recorded 2 times",
            lambda e: altered(e, records=measured(e).records[:1] + measured(e).records[:9]),
        ),
        ("FAIL", "request 99 was recorded", lambda e: each_record(e, lambda r: replace(r, index=99), "A", only=9)),
    ],
    "answers.counted": [
        ("FAIL", "counted 3 requests, the client 10", lambda e: counting(e, requests=3.0)),
        ("FAIL", "counted 79 generated tokens, the client 80", lambda e: counting(e, generation_tokens=79.0)),
        ("FAIL", "counted 10 prompt tokens", lambda e: counting(e, prompt_tokens=10.0)),
        ("FAIL", "counted 11 requests", lambda e: counting(e, requests=11.0)),
        (
            "FAIL",
            "9 were offered",
            lambda e: counting(altered(e, offered=9, records=measured(e).records[:8]), requests=10.0),
        ),
        ("FAIL", "counted 3 requests, the client 9", lambda e: counting(failing(e, "http_503: full", 1), requests=3.0)),
        ("ERROR", "doesn't count its requests", lambda e: without(e, "requests")),
        ("ERROR", "doesn't count its generated tokens", lambda e: without(e, "generation_tokens")),
        ("ERROR", "doesn't count its prompt tokens", lambda e: without(e, "prompt_tokens")),
    ],
    "answers.valid": [
        (
            "FAIL",
            "4 of 10 requests got status 200 without a valid answer: error_payload",
            lambda e: failing(e, "error_payload: {}", 4),
        ),
        ("FAIL", "not_event_stream", lambda e: failing(e, "not_event_stream: <html>", 1)),
        ("FAIL", "empty_choices", lambda e: failing(e, "empty_choices: none", 1)),
        ("FAIL", "has no answer, but 10 of 10", lambda e: failing(e, "error_payload: {}", 10)),
        ("ERROR", "has no answer", lambda e: failing(e, "http_503: full", 10, status=503)),
        ("FAIL", "and says error_payload", lambda e: each_record(e, lambda r: replace(r, error="error_payload: {}"))),
        ("FAIL", "without a finish reason", lambda e: each_record(e, lambda r: replace(r, finish_reason=None))),
        ("FAIL", "without prompt tokens", lambda e: each_record(e, lambda r: replace(r, prompt_tokens=None))),
        ("FAIL", "without output tokens", lambda e: each_record(e, lambda r: replace(r, output_tokens=0))),
        ("FAIL", "without a time", lambda e: each_record(e, lambda r: replace(r, token_times_s=()))),
        ("FAIL", "without status 200", lambda e: each_record(e, lambda r: replace(r, http_status=204))),
        (
            "FAIL",
            "streamed 8 tokens, its usage says 99",
            lambda e: each_record(e, lambda r: replace(r, output_tokens=99)),
        ),
        ("FAIL", "has 2 token ids", lambda e: each_record(e, lambda r: replace(r, token_ids=(1, 2)))),
    ],
    "outputs.lengths": [
        ("FAIL", "asked for 8 tokens, got 4", lambda e: each_record(e, lambda r: cut(r, 4))),
        ("FAIL", "asked for 8 tokens, got 9", lambda e: each_record(natural(e), lambda r: replace(r, output_tokens=9))),
        (
            "FAIL",
            "0.50 times as long as the baseline's (20 pairs)",
            lambda e: each_record(natural(e), lambda r: cut(r, 4)),
        ),
        ("FAIL", "spread otherwise", lambda e: spread(natural(e))),
        ("FAIL", "length 40, stop 0 against length 0, stop 40", lambda e: stopping(natural(e))),
        ("FAIL", "0.50 times", lambda e: single(each_record(natural(e), lambda r: cut(r, 4)))),
        ("ERROR", "no answer tells its length", lambda e: failing_arm(natural(e), 10, "http_503: full", 503)),
        ("INCONCLUSIVE", "no baseline", lambda e: replace(single(natural(e)), search=())),
    ],
    "cache.prefix_hits": [
        (
            "FAIL",
            "prefix-hit rate 100.0%",
            lambda e: counting(e, prefix_hit_tokens=(measured(e).counters_after or {})["prompt_tokens"]),
        ),
        ("FAIL", "its cache was warm", lambda e: each_record(e, lambda r: replace(r, cached_tokens=r.prompt_tokens))),
        ("ERROR", "doesn't count", lambda e: without(e, "prefix_hit_tokens")),
        ("ERROR", "doesn't count", lambda e: without(e, "prefix_queries_tokens")),
        ("ERROR", "no request of trial c0 tells", lambda e: retold(e, declared_sharing=None)),
    ],
    "delivery.gaps": [
        ("FAIL", "8.00 tokens, the baseline's 1.00", lambda e: each_record(e, lambda r: bunched(r, 8))),
        ("FAIL", "2.00 tokens, the baseline's 1.00", lambda e: each_record(e, lambda r: bunched(r, 2))),
        ("FAIL", "86% of its gaps are shorter than the 1 ms", lambda e: each_record(e, held_back)),
        ("FAIL", "stall for over 1 s", lambda e: each_record(e, stalled)),
        (
            "FAIL",
            "got a token before the one before it",
            lambda e: each_record(e, lambda r: replace(r, token_times_s=r.token_times_s[::-1])),
        ),
        ("FAIL", "before it was sent", lambda e: each_record(e, lambda r: replace(r, sent_s=r.token_times_s[0] + 0.5))),
        ("FAIL", "before its first chunk", lambda e: each_record(e, lambda r: replace(r, first_chunk_s=r.end_s))),
        ("FAIL", "after its end", lambda e: each_record(e, lambda r: replace(r, end_s=r.token_times_s[-1] - 0.1))),
        ("FAIL", "8.00 tokens, the baseline's 1.00", lambda e: single(each_record(e, lambda r: bunched(r, 8)))),
        ("INCONCLUSIVE", "no baseline", lambda e: replace(single(e), search=())),
        ("ERROR", "how fast the machine", lambda e: replace(e, floors_ms={})),
        ("ERROR", "one side has no answer", lambda e: failing_arm(e, 10, "http_503: full", 503)),
    ],
    "service.failures": [
        ("FAIL", "12 of 40 requests without an answer, 0 of 40", lambda e: failing_arm(e, 3, "http_503: full", 503)),
        ("FAIL", "http_503 12", lambda e: failing_arm(e, 3, "http_503: full", 503)),
        ("FAIL", "timed out 12", lambda e: failing_arm(e, 3, "timed_out: 60 s", 200, outcome="timed_out")),
        ("FAIL", "turned away by the engine", lambda e: rejecting(e, 3.0)),
        ("FAIL", "without an answer", lambda e: single(failing_arm(e, 6, "http_503: full", 503))),
        ("ERROR", "offered no request", lambda e: altered(e, offered=0, records=())),
        ("ERROR", "doesn't count requests rejected", lambda e: without(e, "rejected")),
        ("ERROR", "doesn't count requests aborted", lambda e: without(e, "aborted")),
        ("INCONCLUSIVE", "no baseline", lambda e: replace(single(e), search=())),
    ],
    "clock.agrees": [
        ("FAIL", "the first token the server's mean is", lambda e: counting(e, ttft_seconds_sum=0.8)),
        ("FAIL", "the last token the server's mean is", lambda e: counting(e, e2e_seconds_sum=59.0)),
        ("FAIL", "its window is", lambda e: altered(e, window_s=measured(e).window_s * 0.9)),
        ("FAIL", "passed between its entries", lambda e: retold(e, recorded_at=e.trials[0].began_at + 1)),
        (
            "FAIL",
            "its load began 3600.0 s before it was announced",
            lambda e: altered(e, started_at=e.trials[0].began_at - 3600),
        ),
        (
            "FAIL",
            "its load began 60.0 s after it was recorded",
            lambda e: altered(e, started_at=e.trials[0].recorded_at + 60),
        ),
        (
            "FAIL",
            "its server started, by its own word, 9.0 s before",
            lambda e: serving(e, before={"started_at": e.trials[0].began_at - 9}),
        ),
        (
            "FAIL",
            "by the operating system, 9.0 s before",
            lambda e: serving(e, before={"process_started_at": e.trials[0].began_at - 9}),
        ),
        ("FAIL", "Date header is +5.0 s", lambda e: each_record(e, lambda r: replace(r, clock_skew_s=5.0))),
        ("FAIL", "before it was sent", lambda e: each_record(e, lambda r: replace(r, end_s=r.sent_s - 1.0), only=0)),
        ("FAIL", "and due at", lambda e: each_record(e, lambda r: replace(r, scheduled_s=r.sent_s + 1))),
        ("ERROR", "announced", lambda e: retold(e, began_at=0.0)),
        ("ERROR", "doesn't time its requests to the last token", lambda e: without(e, "e2e_seconds_sum")),
        ("ERROR", "doesn't time its requests to the first token", lambda e: without(e, "ttft_seconds_count")),
    ],
    "physics.floor": [
        ("FAIL", "the roofline's floor is 5000.00", lambda e: floors(e, ttft_ms=5000.0)),
        ("INCONCLUSIVE", "median tpot_ms of 10.00, the roofline's floor is 10.50", lambda e: floors(e, tpot_ms=10.5)),
        ("FAIL", "claims a median e2el_ms", lambda e: each_record(floors(e, tpot_ms=9.99), lambda r: hurried(r))),
        ("ERROR", "roofline is unknown", lambda e: replace(e, floors_ms={})),
        ("ERROR", "roofline is unknown", lambda e: replace(e, floors_ms={"ttft_ms": 1.0})),
        ("ERROR", "no latency", lambda e: retold(e, summary={})),
    ],
    "physics.ceiling": [
        ("FAIL", "claims a request_throughput of", lambda e: faster(e, 100)),
        ("FAIL", "the roofline's ceiling is", lambda e: replace(e, roofline={**e.roofline, "read_bytes_per_s": 1e7})),
        (
            "FAIL",
            "claims a request_throughput",
            lambda e: replace(e, roofline={**e.roofline, "flops_per_s_bf16": 1e8, "flops_per_s_fp32": 1e8}),
        ),
        ("ERROR", "unknown", lambda e: replace(e, roofline={})),
        ("ERROR", "unknown", lambda e: replace(e, physics={})),
        ("ERROR", "can't be read", lambda e: replace(e, physics={"model": {"step_bytes": 1}})),
        ("ERROR", "has no request_throughput", lambda e: retold(e, summary={})),
        ("ERROR", "don't tell their tokens", lambda e: retold(e, declared_sharing=None)),
    ],
    "soundness.doubts": [
        ("INCONCLUSIVE", "97% of a core", lambda e: altered(e, client=ClientHealth(0.5, 0.97))),
        ("INCONCLUSIVE", "chunks a second", lambda e: replace(e, client_floor=Floor(1.0, 0.1, 0.1, 5.0))),
    ],
    "data.complete": [
        ("ERROR", "has no measurement: oom", lambda e: retold(e, measurement=None, failure="oom")),
        ("ERROR", "none of 10 requests was answered", lambda e: failing(e, "http_503: full", 10, status=503)),
        ("ERROR", "none of 10 requests was answered", lambda e: altered(e, records=(), window_s=1.0)),
        ("ERROR", "counters weren't read", lambda e: altered(e, counters_after=None)),
        ("ERROR", "counters weren't read", lambda e: altered(e, counters_before={}, counters_after={})),
        (
            "ERROR",
            "requests fell from 40 to 10",
            lambda e: altered(e, counters_before={**(measured(e).counters_before or {}), "requests": 40.0}),
        ),
        ("ERROR", "requests is nan", lambda e: counting(e, requests=math.nan)),
        ("ERROR", "requests is -1", lambda e: counting(e, requests=-1.0)),
        ("ERROR", "uptime is missing before the load", lambda e: counting(e, uptime=3.0)),
        (
            "ERROR",
            "requests is missing",
            lambda e: replace(e, trials=(*without(e, "requests").trials[:1], *e.trials[1:])),
        ),
        ("ERROR", "end_s = nan", lambda e: unfollowed(e, lambda r: replace(r, end_s=math.nan))),
        ("ERROR", "token_times_s = inf", lambda e: unfollowed(e, lambda r: replace(r, token_times_s=(math.inf,)))),
        ("ERROR", "sent_s = None", lambda e: unfollowed(e, lambda r: replace(r, sent_s=None))),  # type: ignore[arg-type]
        (
            "ERROR",
            "mean_ttft_ms is nan",
            lambda e: retold(e, summary={**e.trials[0].summary, "mean_ttft_ms": math.nan}),
        ),
        ("ERROR", "mean_ttft_ms is nan", lambda e: claiming(e, lambda m: {**m, "mean_ttft_ms": math.nan})),
        ("ERROR", "no summary", lambda e: retold(e, summary={})),
        ("ERROR", "its window of nan s", lambda e: unwindowed(e)),
        ("ERROR", "cpu_share is nan", lambda e: altered(e, client=ClientHealth(0.5, math.nan))),
        ("INCONCLUSIVE", "has no p95_ttft_ms: 9 of 10 requests", lambda e: failing(e, "http_503: full", 1, status=503)),
        ("INCONCLUSIVE", "has no output_throughput", lambda e: dropping(e, "output_throughput")),
    ],
}


@pytest.mark.parametrize("rule", LIES)
def test_every_lie_is_told_with_its_numbers(confirmation: Confirmation, rule: str) -> None:
    honest = confirmation()
    for status, says, lie in LIES[rule]:
        verdict = asked(rule, lie(honest))
        assert (verdict.status, says in verdict.sentence) == (status, True), (says, verdict)


ODD = st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 0.0, 1e9])


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # numpy, of what isn't a number
@given(data=st.data())
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_stands_in_the_records_no_rule_raises_and_what_is_no_number_is_no_pass(
    confirmation: Confirmation, data: st.DataObject
) -> None:
    evidence, index = single(confirmation()), 0
    odd = data.draw(ODD)
    whole = data.draw(st.sampled_from([0, -1, 10**9]))
    counter = data.draw(st.sampled_from(sorted(measured(evidence).counters_after or {})))
    moment = data.draw(st.sampled_from(["scheduled_s", "sent_s", "end_s", "first_chunk_s", "clock_skew_s"]))
    record = data.draw(st.integers(0, 9))
    records = list(measured(evidence, index).records)
    records[record] = replace(records[record], **{moment: odd})
    summary = {**evidence.trials[index].summary, "median_ttft_ms": odd, "output_throughput": odd}
    for spoiled in (
        counting(evidence, index, **{counter: odd}),
        retold(evidence, index, summary=summary),
        retold(evidence, index, measurement=replace(measured(evidence, index), records=tuple(records))),
        retold(evidence, index, measurement=replace(measured(evidence, index), offered=whole)),
        each_record(evidence, lambda r: replace(r, output_tokens=whole, prompt_tokens=whole)),
        each_record(evidence, lambda r: replace(r, index=whole)),
        retold(evidence, index, declared_sharing=odd, began_at=odd, recorded_at=odd, asked_tokens=()),
    ):
        statuses = {rule.id: rule.verify(spoiled).status for rule in RULES}
        assert "PASS" in statuses.values()
        assert set(statuses.values()) != {"PASS"} or math.isfinite(odd)


def test_every_rule_has_its_lies() -> None:
    assert set(LIES) == set(BY_ID)


# Each lie's making


def claiming(evidence: Evidence, claim: Callable[[dict[str, float]], dict[str, float]]) -> Evidence:
    return retold(evidence, recorded_summary=claim(dict(evidence.trials[0].recorded_summary)))


def dropping(evidence: Evidence, metric: str) -> Evidence:
    return retold(evidence, summary={k: v for k, v in evidence.trials[0].summary.items() if k != metric})


def shifted(record: RequestRecord, due_s: float) -> RequestRecord:
    later_s = due_s - record.scheduled_s
    times = tuple(at_s + later_s for at_s in record.token_times_s)
    moved = replace(record, scheduled_s=due_s, sent_s=record.sent_s + later_s, end_s=record.end_s + later_s)
    return replace(moved, token_times_s=times, first_chunk_s=times[0])


def serving(
    evidence: Evidence, index: int = 0, before: dict[str, Any] | None = None, after: dict[str, Any] | None = None
) -> Evidence:
    now, then = measured(evidence, index).identity_before, measured(evidence, index).identity_after
    assert now is not None and then is not None
    return altered(
        evidence, index, identity_before=replace(now, **(before or {})), identity_after=replace(then, **(after or {}))
    )


def same_launch(evidence: Evidence, one: int, other: int) -> Evidence:
    first = measured(evidence, one).identity_before
    return altered(evidence, other, identity_before=first, identity_after=first)


def running(evidence: Evidence, **knobs: Any) -> Evidence:
    now = measured(evidence).identity_before
    assert now is not None
    config = {name: value for name, value in {**now.config, **knobs}.items() if value is not None}
    says = {"config": config, "config_digest": digest(config)}
    return serving(evidence, before=says, after=says)


def failing(evidence: Evidence, error: str, count: int, status: int | None = 200) -> Evidence:
    records = tuple(refused(r, error, status) if r.index < count else r for r in measured(evidence).records)
    return altered(evidence, records=records)


def failing_arm(evidence: Evidence, count: int, error: str, status: int, outcome: str = "failed") -> Evidence:
    return each_record(
        evidence, lambda r: replace(refused(r, error, status), outcome=outcome) if r.index < count else r
    )


def rejecting(evidence: Evidence, count: float) -> Evidence:
    for index, trial in enumerate(evidence.trials):
        if trial.arm == "B":
            evidence = counting(evidence, index, rejected=count)
    return evidence


def cut(record: RequestRecord, tokens: int) -> RequestRecord:
    short = replace(record, output_tokens=tokens, token_counts=record.token_counts[:tokens])
    return replace(short, token_times_s=record.token_times_s[:tokens], token_ids=record.token_ids[:tokens])


def natural(evidence: Evidence) -> Evidence:
    """Of a server that doesn't take `ignore_eos`."""
    for index in range(len(evidence.trials)):
        evidence = altered(evidence, index, extras=("return_token_ids",))
    search = with_measurement(evidence.search[0], evidence.deployment, extras=("return_token_ids",))
    return replace(evidence, search=(search,))


def spread(evidence: Evidence) -> Evidence:
    """Both answer with 6 tokens in the middle, one of them always, the other from 5 to 8."""
    evenly = each_record(evidence, lambda r: cut(r, 6), "A")
    return each_record(evenly, lambda r: cut(r, 8 if r.index % 2 else 7), "B")


def stopping(evidence: Evidence) -> Evidence:
    return each_record(evidence, lambda r: replace(r, finish_reason="stop"))


def bunched(record: RequestRecord, tokens: int) -> RequestRecord:
    """As many tokens in each chunk, which comes when the last of them is made."""
    counts = tuple(sum(record.token_counts[i : i + tokens]) for i in range(0, len(record.token_counts), tokens))
    times = tuple(record.token_times_s[min(i + tokens, len(record.token_times_s)) - 1] for i in range(0, 8, tokens))
    return replace(record, token_counts=counts, token_times_s=times, first_chunk_s=times[0])


def held_back(record: RequestRecord) -> RequestRecord:
    """The first token at once, the others together at the end."""
    first, *_, last = record.token_times_s
    return replace(record, token_times_s=(first, *(last - 0.0001 * n for n in range(6, -1, -1))))


def stalled(record: RequestRecord) -> RequestRecord:
    """A pause in the middle of an answer."""
    times = (*record.token_times_s[:4], *(at_s + 1.5 for at_s in record.token_times_s[4:]))
    return replace(record, token_times_s=times, end_s=times[-1] + 0.001)


def hurried(record: RequestRecord) -> RequestRecord:
    """Of ten requests four have no time to the first token, four others none between tokens; both medians look well."""
    first_s = record.sent_s + (0.001 if record.index < 4 else 0.006)
    gap_s = 0.0001 if record.index >= 6 else 0.010
    times = tuple(first_s + gap_s * n for n in range(8))
    return replace(record, token_times_s=times, first_chunk_s=first_s, end_s=times[-1] + 0.001)


def floors(evidence: Evidence, **floors_ms: float) -> Evidence:
    return replace(evidence, floors_ms={**evidence.floors_ms, **floors_ms})


def faster(evidence: Evidence, times: float) -> Evidence:
    """All the same work in a part of the time."""

    def quick(record: RequestRecord) -> RequestRecord:
        moments = {name: getattr(record, name) / times for name in ("scheduled_s", "sent_s", "end_s", "first_chunk_s")}
        return replace(record, **moments, token_times_s=tuple(at_s / times for at_s in record.token_times_s))

    return each_record(evidence, quick)


def unfollowed(evidence: Evidence, tell: Tell) -> Evidence:
    """Records that no summary follows from."""
    records = (tell(measured(evidence).records[0]), *measured(evidence).records[1:])
    return retold(evidence, measurement=replace(measured(evidence), records=records))


def unwindowed(evidence: Evidence) -> Evidence:
    return retold(evidence, measurement=replace(measured(evidence), window_s=math.nan))


def set_by_hand(evidence: Evidence, **knobs: Any) -> Evidence:
    """Asked for with these knobs too; the server still runs with what it had."""
    config = evidence.trials[0].config.patched(knobs)
    return retold(altered(evidence, config_digest=config.digest), config=config)


# What isn't a lie


def test_an_automatic_knob_may_come_back_as_what_the_engine_made_of_it(confirmation: Confirmation) -> None:
    evidence = confirmation()
    served = measured(evidence).identity_before
    assert served is not None
    assert (evidence.trials[0].config.values["num_threads"], served.config["num_threads"]) == (0, 2)
    assert asked("identity.config", evidence).status == "PASS"


def test_a_server_may_take_as_long_to_load_as_it_took_to_be_ready(confirmation: Confirmation) -> None:
    evidence = confirmation()
    slow = serving(evidence, before={"process_started_at": measured(evidence).started_at - 90})
    assert asked("identity.process", slow).status == "FAIL"
    assert asked("identity.process", retold(slow, ready_s=80.0)).status == "PASS"


def test_an_engine_may_have_worked_for_requests_that_were_given_up(confirmation: Confirmation) -> None:
    evidence = failing(confirmation(), "dropped_stream: reset", 1)
    assert asked("answers.counted", evidence).status == "PASS"
    assert asked("answers.valid", evidence).status == "PASS"
    assert asked("accounting.balance", evidence).status == "PASS"
    assert "1 failed" in asked("accounting.balance", evidence).sentence


def test_as_many_failures_as_the_baselines_are_no_fault_of_the_candidate(confirmation: Confirmation) -> None:
    evidence = failing_arm(confirmation(), 2, "http_503: full", 503)
    both = each_record(evidence, lambda r: refused(r, "http_503: full", 503) if r.index < 3 else r, "A")
    verdict = asked("service.failures", both)
    assert verdict.status == "PASS" and "8 of 40" in verdict.sentence and "12 of 40" in verdict.sentence


def test_pauses_of_both_sides_and_bulk_work_that_nobody_watches_may_stall(confirmation: Confirmation) -> None:
    evidence = confirmation()
    alike = each_record(each_record(evidence, stalled, "A"), stalled, "B")
    assert asked("delivery.gaps", alike).status == "PASS"
    bulk = evidence.deployment.workload.model_copy(update={"workload_class": "data-processor"})
    unwatched = replace(evidence, deployment=evidence.deployment.model_copy(update={"workload": bulk}))
    assert asked("delivery.gaps", each_record(unwatched, stalled)).status == "PASS"


def test_a_client_that_reads_two_chunks_at_once_now_and_then_accuses_nobody(confirmation: Confirmation) -> None:
    def merged(record: RequestRecord) -> RequestRecord:
        times = list(record.token_times_s)
        times[2], times[5] = times[3], times[6]
        return replace(record, token_times_s=tuple(times))

    assert asked("delivery.gaps", each_record(confirmation(), merged)).status == "PASS"


def test_a_busy_machine_makes_the_way_to_the_client_longer_but_never_shorter(confirmation: Confirmation) -> None:
    evidence = confirmation()
    counters = measured(evidence).counters_after or {}
    for timer in ("ttft", "e2e"):
        total = counters[f"{timer}_seconds_sum"]
        assert asked("clock.agrees", counting(evidence, **{f"{timer}_seconds_sum": total - 3})).status == "PASS"
        assert asked("clock.agrees", counting(evidence, **{f"{timer}_seconds_sum": total + 3})).status == "FAIL"


def test_answers_as_long_as_the_baselines_pass_without_ignore_eos(confirmation: Confirmation) -> None:
    evidence = each_record(natural(confirmation()), lambda r: cut(r, 8 - r.index % 3), "A")
    alike = each_record(evidence, lambda r: cut(r, 8 - r.index % 3), "B")
    verdict = asked("outputs.lengths", alike)
    assert verdict.status == "PASS" and "1.000 times" in verdict.sentence and "20 pairs" in verdict.sentence
    baseline = asked("outputs.lengths", single(alike, "A"))
    assert baseline.status == "PASS" and "no other side" in baseline.sentence


def test_answers_of_one_token_are_held_against_the_floor_of_the_first(confirmation: Confirmation) -> None:
    evidence = confirmation()
    for index, trial in enumerate(evidence.trials):
        evidence = retold(evidence, index, summary={k: v for k, v in trial.summary.items() if "tpot" not in k})
    assert asked("physics.floor", evidence).status == "PASS"


def test_the_sentence_tells_what_lies_closest_to_the_bound(confirmation: Confirmation) -> None:
    evidence = confirmation()
    quick = asked("physics.ceiling", faster(evidence, 20)).sentence
    value, most = (float(word.strip("()").replace(",", "")) for word in quick.split() if word.strip("()")[0].isdigit())
    assert 0.1 < value / most < 1
    assert "ttft_ms 198.55 (floor 5.00)" in asked("physics.floor", evidence).sentence


@given(share=st.floats(0.0, 1.0), declared=st.floats(0.0, 1.0))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hits_pass_up_to_what_the_workload_shares_and_a_point_more(
    confirmation: Confirmation, share: float, declared: float
) -> None:
    evidence = confirmation()
    prompt = (measured(evidence).counters_after or {})["prompt_tokens"]
    lie = retold(counting(evidence, prefix_hit_tokens=share * prompt), declared_sharing=declared)
    expected = "FAIL" if share > declared + 0.01 else "PASS"
    if not math.isclose(share, declared + 0.01, abs_tol=1e-9):
        assert asked("cache.prefix_hits", lie).status == expected


@given(factor=st.floats(0.1, 10.0))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_claim_that_is_not_the_raw_records_is_refused_whatever_its_factor(
    confirmation: Confirmation, factor: float
) -> None:
    lie = claiming(confirmation(), lambda m: {**m, "mean_ttft_ms": m["mean_ttft_ms"] * factor})
    assert (asked("units.consistent", lie).status == "FAIL") == (abs(factor - 1) > 1e-6)


def test_a_trial_of_the_search_needs_nothing_but_the_baseline_beside_it(confirmation: Confirmation) -> None:
    evidence = single(confirmation())
    assert isinstance(evidence.trials[0], TrialEvidence) and evidence.trials[0].role == "search"
    lost = evidence.about([with_measurement(evidence.trials[0], evidence.deployment, extras=())])
    assert asked("outputs.lengths", lost).status == "PASS"  # as long as the baseline's, though by its own will
