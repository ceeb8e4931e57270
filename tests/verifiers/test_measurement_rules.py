"""The measurement rules: an honest story passes each, every lie fails with its numbers, what is missing is no PASS."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.verifiers.conftest import Confirmation, with_measurement
from tests.verifiers.retold import (
    asked,
    claiming,
    counting,
    cut,
    each_record,
    failing,
    failing_arm,
    faster,
    measured,
    natural,
    refused,
    retold,
    serving,
    single,
    stalled,
)
from tools.measure import RequestRecord
from verifiers import Rule, TrialEvidence
from verifiers.rules.measurement import RULES


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


def test_a_minority_that_is_cut_short_is_seen_request_by_request(confirmation: Confirmation) -> None:
    told = natural(confirmation())
    evidence = told.about(
        (*told.trials, *(replace(t, id=f"{t.id}-more", block=2 + (t.block or 0)) for t in told.trials))
    )
    cuts = each_record(evidence, lambda r: cut(r, 8 - (r.index % 3 == 1)), "B")
    verdict = asked("outputs.lengths", cuts)
    assert verdict.status == "FAIL" and "12 of 40 answers are shorter" in verdict.sentence, verdict.sentence
    few = each_record(evidence, lambda r: cut(r, 8 - (r.index == 9)), "B")
    assert asked("outputs.lengths", few).status == "PASS", "a near-tie may end an answer a token earlier"


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
