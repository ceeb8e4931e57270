"""Every lie about a measurement is told by its rule, with its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.verifiers.conftest import Confirmation
from tests.verifiers.retold import (
    BY_ID,
    altered,
    asked,
    bunched,
    claiming,
    counting,
    cut,
    dropping,
    each_record,
    failing,
    failing_arm,
    faster,
    floors,
    held_back,
    hurried,
    lacking,
    measured,
    natural,
    rejecting,
    retold,
    running,
    same_launch,
    serving,
    set_by_hand,
    shifted,
    single,
    spread,
    stalled,
    stopping,
    unfollowed,
    unwindowed,
    without,
)
from tools.measure import ClientHealth
from tools.measure.floor import Floor
from verifiers import Evidence
from verifiers.rules.measurement import RULES

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
        ("ERROR", "sent_s = None", lambda e: unfollowed(e, lambda r: lacking(r, "sent_s"))),
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
