"""One honest story and at least one lie for each verifier."""

from dataclasses import replace
from typing import Any

import pytest

from tests.verifiers.conftest import SPACE, Confirmation, with_measurement
from tools.canonical import digest
from tools.deployment import Deployment
from tools.evals.agreement import GreedyOutputs
from tools.evals.results import EvalResults
from tools.measure import ClientHealth, Measurement
from tools.measure.floor import Floor
from verifiers import STAGES, Evidence, judge
from verifiers.rules.effect import guardrails_kept, improvement_primary, slo_kept
from verifiers.rules.measurement import (
    accounting_balance,
    environment_same,
    identity_served,
    physics_floor,
    soundness_doubts,
)
from verifiers.rules.plan import plan_kept
from verifiers.rules.proposal import duplicate_config, feasibility_memory, policy_knobs
from verifiers.rules.quality import greedy_tokens


def measured(evidence: Evidence, index: int) -> Measurement:
    measurement = evidence.trials[index].measurement
    assert measurement is not None
    return measurement


def altered(evidence: Evidence, index: int, deployment: Deployment, **changes: object) -> Evidence:
    trials = list(evidence.trials)
    trials[index] = with_measurement(trials[index], deployment, **changes)
    return replace(evidence, trials=tuple(trials))


def test_an_honest_improvement_passes_every_question(confirmation: Confirmation) -> None:
    judgement = judge("confirm", confirmation())
    assert [v.status for v in judgement.verdicts] == ["PASS"] * len(STAGES["confirm"])
    assert judgement.status == "PASS" and judgement.score == pytest.approx(0.75, abs=0.05)


# policy
@pytest.mark.parametrize(
    ("patch", "says"),
    [
        ({}, "changes nothing"),
        ({"max_num_seq": 4}, "did you mean 'max_num_seqs'"),
        ({"max_num_seqs": 100_000}, "expected 1 to 512"),
        ({"max_num_seqs": "8; reboot"}, "whole number"),
        ({"max_num_seqs": True}, "whole number"),
        ({"dtype": "int8"}, "can change what the model says"),
        ({"max_queue_len": 1}, "only the owner may set it"),
    ],
)
def test_what_may_not_be_proposed_is_refused(confirmation: Confirmation, patch: dict[str, Any], says: str) -> None:
    evidence = confirmation()
    verdict = policy_knobs.verify(replace(evidence, candidate=evidence.baseline.patched(patch)))
    assert verdict.status == "FAIL" and says in verdict.sentence


def test_a_knob_that_the_owner_did_not_mark_is_refused(confirmation: Confirmation) -> None:
    verdict = policy_knobs.verify(replace(confirmation(), managed=frozenset({"block_size"})))
    assert verdict.status == "FAIL" and "managed" in verdict.sentence


# duplicate, feasibility, environment, physics
def test_a_config_that_was_tried_is_not_tried_again(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert duplicate_config.verify(evidence.proposing(evidence.baseline, 1)).status == "FAIL"
    assert duplicate_config.verify(evidence.proposing(SPACE.resolve({"max_num_seqs": 9}), 1)).status == "PASS"


def test_what_does_not_fit_into_memory_is_refused_and_the_unknown_is_no_pass(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert feasibility_memory.verify(replace(evidence, memory_need_bytes=9 << 30)).status == "FAIL"
    assert feasibility_memory.verify(replace(evidence, memory_need_bytes=None)).status == "ERROR"


def test_trials_from_two_machines_are_not_compared(confirmation: Confirmation) -> None:
    evidence = confirmation()
    moved = replace(evidence.trials[0], environment="other")
    assert environment_same.verify(replace(evidence, trials=(moved, *evidence.trials[1:]))).status == "FAIL"


def test_a_latency_below_the_roofline_is_impossible(confirmation: Confirmation) -> None:
    assert physics_floor.verify(replace(confirmation(), floors_ms={"tpot_ms": 50.0})).status == "FAIL"
    assert physics_floor.verify(replace(confirmation(), floors_ms={"ttft_ms": 5000.0})).status == "FAIL"
    assert physics_floor.verify(replace(confirmation(), floors_ms={})).status == "ERROR"


def test_answers_of_one_token_are_held_against_the_floor_of_the_first(confirmation: Confirmation) -> None:
    evidence = confirmation()
    without = [{k: v for k, v in t.summary.items() if "tpot" not in k} for t in evidence.trials]
    trials = tuple(replace(t, summary=s) for t, s in zip(evidence.trials, without, strict=True))
    assert physics_floor.verify(replace(evidence, trials=trials)).status == "PASS"


# identity
def test_a_server_that_restarted_during_the_load_is_noticed(confirmation: Confirmation, deployment: Deployment) -> None:
    evidence = confirmation()
    after = replace(measured(evidence, 0).identity_after, started_at=1.0)
    assert "changed while" in identity_served.verify(altered(evidence, 0, deployment, identity_after=after)).sentence


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model_digest": "x"}, "another model than the one"),
        ({"config_digest": "x"}, "two sources"),
        ({"process_started_at": 5.0}, "did not start"),
    ],
)
def test_another_server_than_the_one_launched_is_noticed(
    confirmation: Confirmation,
    deployment: Deployment,
    change: dict[str, Any],
    says: str,
) -> None:
    evidence = confirmation()
    served = replace(measured(evidence, 1).identity_before, **change)
    told = identity_served.verify(altered(evidence, 1, deployment, identity_before=served, identity_after=served))
    assert told.status == "FAIL" and says in told.sentence


def test_a_clamped_knob_was_not_applied_but_an_automatic_one_may_resolve(
    confirmation: Confirmation, deployment: Deployment
) -> None:
    evidence = confirmation()
    assert identity_served.verify(evidence).status == "PASS"  # num_threads 0 (automatic) is served as 2
    served = measured(evidence, 1).identity_before
    clamped = {**served.config, "max_num_seqs": 8}
    lie = replace(served, config=clamped, config_digest=digest(clamped))
    told = identity_served.verify(altered(evidence, 1, deployment, identity_before=lie, identity_after=lie))
    assert told.status == "FAIL" and "max_num_seqs=16" in told.sentence


def test_one_launch_may_not_answer_for_two_trials(confirmation: Confirmation, deployment: Deployment) -> None:
    evidence = confirmation()
    first = measured(evidence, 0).identity_before
    reused = altered(evidence, 3, deployment, identity_before=first, identity_after=first)
    assert "fresh" in identity_served.verify(reused).sentence


# accounting
def test_a_dropped_request_is_missed(confirmation: Confirmation, deployment: Deployment) -> None:
    evidence = confirmation()
    short = measured(evidence, 0).records[:-1]
    assert "unaccounted" in accounting_balance.verify(altered(evidence, 0, deployment, records=short)).sentence
    fewer = altered(evidence, 0, deployment, records=short, offered=9)
    assert "the workload has 10" in accounting_balance.verify(fewer).sentence


def test_a_request_recorded_twice_a_cut_prompt_and_other_extensions_are_noticed(
    confirmation: Confirmation, deployment: Deployment
) -> None:
    evidence = confirmation()
    m = measured(evidence, 0)
    twice = (m.records[0], *m.records[:-1])
    assert "twice" in accounting_balance.verify(altered(evidence, 0, deployment, records=twice)).sentence
    cut = {**m.counters_after, "prompt_tokens": 10.0}
    assert "prompt tokens" in accounting_balance.verify(altered(evidence, 0, deployment, counters_after=cut)).sentence
    assert "extensions" in accounting_balance.verify(altered(evidence, 0, deployment, extras=())).sentence


def test_tokens_that_server_and_client_count_differently_are_noticed(
    confirmation: Confirmation, deployment: Deployment
) -> None:
    evidence = confirmation()
    after = {**measured(evidence, 0).counters_after, "generation_tokens": 79.0}
    assert (
        "server counted 79"
        in accounting_balance.verify(altered(evidence, 0, deployment, counters_after=after)).sentence
    )
    records = list(measured(evidence, 0).records)
    records[0] = replace(records[0], output_tokens=99)
    assert (
        "usage says 99" in accounting_balance.verify(altered(evidence, 0, deployment, records=tuple(records))).sentence
    )


def test_answers_cut_short_are_noticed(confirmation: Confirmation, deployment: Deployment) -> None:
    evidence = confirmation()
    m = measured(evidence, 0)
    short = tuple(
        replace(r, output_tokens=4, token_counts=r.token_counts[:4], token_times_s=r.token_times_s[:4])
        for r in m.records
    )
    counters = {**m.counters_after, "generation_tokens": 40.0}
    told = accounting_balance.verify(altered(evidence, 0, deployment, records=short, counters_after=counters))
    assert told.status == "FAIL" and "asked for 8 tokens, it got 4" in told.sentence


def test_more_prefix_hits_than_the_workload_shares_mean_a_warm_cache(
    confirmation: Confirmation, deployment: Deployment
) -> None:
    evidence = confirmation()
    counters = dict(measured(evidence, 0).counters_after)
    counters["prefix_hit_tokens"] = counters["prefix_queries_tokens"]
    assert "prefix-hit" in accounting_balance.verify(altered(evidence, 0, deployment, counters_after=counters)).sentence
    assert "doesn't count" in accounting_balance.verify(altered(evidence, 0, deployment, counters_after={})).sentence


# plan
def test_a_plan_that_was_changed_after_it_was_hashed_is_refused(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert evidence.plan is not None
    swapped = replace(evidence.plan, metric="mean_tpot_ms")
    assert plan_kept.verify(replace(evidence, plan=swapped)).status == "FAIL"
    assert plan_kept.verify(replace(evidence, plan=swapped, plan_digest=swapped.digest)).status == "FAIL"
    assert plan_kept.verify(replace(evidence, plan=None)).status == "ERROR"


def test_trials_left_out_reordered_or_measured_too_early_are_noticed(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert plan_kept.verify(replace(evidence, trials=evidence.trials[:-2])).status == "ERROR"
    shuffled = (evidence.trials[1], evidence.trials[0], *evidence.trials[2:])
    assert plan_kept.verify(replace(evidence, trials=shuffled)).status == "FAIL"
    early = (replace(evidence.trials[0], seq=2), *evidence.trials[1:])
    assert "before the plan" in plan_kept.verify(replace(evidence, trials=early)).sentence


def test_a_seed_that_the_search_saw_may_not_confirm(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert evidence.plan is not None
    seen = (replace(evidence.search[0], seed=evidence.plan.slots[0].seed),)
    assert "seed" in plan_kept.verify(replace(evidence, search=seen)).sentence


def test_another_workload_than_the_deployments_does_not_count(confirmation: Confirmation) -> None:
    evidence = confirmation()
    easier = (replace(evidence.trials[0], spec_digest="easier"), *evidence.trials[1:])
    assert "another workload" in plan_kept.verify(replace(evidence, trials=easier)).sentence


# slo
def test_a_broken_promise_fails_unless_the_baseline_breaks_it_by_more(confirmation: Confirmation) -> None:
    assert slo_kept.verify(confirmation()).status == "PASS"
    improved = slo_kept.verify(confirmation(candidate=(0.6, 0.6, 0.6, 0.6)))
    assert improved.status == "PASS" and "still out of SLO" in improved.sentence
    assert slo_kept.verify(confirmation(baseline=(0.3,) * 4, candidate=(0.6,) * 4)).status == "FAIL"


# improvement
@pytest.mark.parametrize(
    ("baseline", "candidate", "status"),
    [
        ((0.80, 0.82, 0.79, 0.81), (0.20, 0.21, 0.19, 0.22), "PASS"),
        ((0.80, 0.82, 0.79, 0.81), (0.78, 0.77, 0.76, 0.775), "FAIL"),  # sure, but too small to matter
        ((0.80, 0.82, 0.79, 0.81), (0.80, 0.82, 0.79, 0.81), "FAIL"),  # no-op
        ((0.50, 1.00, 0.60, 0.90), (0.70, 0.40, 0.95, 0.55), "INCONCLUSIVE"),  # the sample can't tell
        ((0.20, 0.21, 0.19, 0.22), (0.80, 0.82, 0.79, 0.81), "FAIL"),  # worse
    ],
)
def test_better_means_beyond_chance_and_by_enough(
    confirmation: Confirmation, baseline: tuple[float, ...], candidate: tuple[float, ...], status: str
) -> None:
    assert improvement_primary.verify(confirmation(baseline, candidate)).status == status


def test_a_metric_that_one_launch_lacks_is_an_error(confirmation: Confirmation) -> None:
    evidence = confirmation()
    blank = (replace(evidence.trials[0], summary={}), *evidence.trials[1:])
    assert improvement_primary.verify(replace(evidence, trials=blank)).status == "ERROR"
    assert improvement_primary.verify(replace(evidence, trials=())).status == "ERROR"


# guardrails
def test_failed_requests_and_a_worse_guardrail_are_refused(confirmation: Confirmation, deployment: Deployment) -> None:
    evidence = confirmation()
    assert guardrails_kept.verify(evidence).status == "PASS"
    records = list(measured(evidence, 1).records)
    records[0] = replace(records[0], outcome="failed", error="http_503")
    assert "failed" in guardrails_kept.verify(altered(evidence, 1, deployment, records=tuple(records))).sentence
    slower = [
        with_measurement(t, deployment, window_s=2 * t.measurement.window_s) if t.arm == "B" and t.measurement else t
        for t in evidence.trials
    ]
    assert "output_throughput" in guardrails_kept.verify(replace(evidence, trials=tuple(slower))).sentence


# quality
def test_other_greedy_tokens_are_a_loss_but_the_baselines_own_flips_are_not(confirmation: Confirmation) -> None:
    evidence = confirmation()
    other = GreedyOutputs({f"p{i}": (999,) * 16 for i in range(8)})
    lossy = [replace(t, evals=EvalResults("s", other)) if t.arm == "B" else t for t in evidence.trials]
    assert greedy_tokens.verify(replace(evidence, trials=tuple(lossy))).status == "FAIL"

    def flipped(index: int) -> GreedyOutputs:
        return GreedyOutputs(
            {f"p{i}": (i, 999, *range(14)) if i == index else tuple(range(i, i + 16)) for i in range(8)}
        )

    wobbling = [replace(t, evals=EvalResults("s", flipped(n))) for n, t in enumerate(evidence.trials)]
    assert greedy_tokens.verify(replace(evidence, trials=tuple(wobbling))).status == "PASS"
    missing = tuple(replace(t, evals=None) if t.block == 0 and t.arm == "A" else t for t in evidence.trials[:5])
    assert greedy_tokens.verify(replace(evidence, trials=missing)).status == "ERROR"


# the gate
def test_what_is_not_better_is_told_as_such_whatever_it_costs(confirmation: Confirmation) -> None:
    judgement = judge(
        "confirm", confirmation(baseline=(0.3,) * 4, candidate=(0.6,) * 4)
    )  # worse, and breaks the promise
    assert judgement.refusal is not None and judgement.refusal.rule == improvement_primary.RULE


def test_the_gate_stops_at_the_first_fail_and_scores_it_zero(confirmation: Confirmation) -> None:
    evidence = confirmation()
    judgement = judge("confirm", replace(evidence, managed=frozenset()))
    assert [v.rule for v in judgement.verdicts] == [policy_knobs.RULE]
    assert (judgement.status, judgement.score) == ("FAIL", 0.0)


def test_missing_evidence_is_never_a_pass(confirmation: Confirmation) -> None:
    for stage, questions in STAGES.items():
        if not questions:
            continue
        judgement = judge(stage, replace(confirmation(), trials=(), search=(), plan=None, candidate=None))
        assert judgement.status != "PASS", stage
        assert questions


# soundness
@pytest.mark.parametrize(
    ("client", "floor", "says"),
    [
        (ClientHealth(send_lag_p99_ms=0.5, cpu_share=0.97), None, "client_limited"),
        (ClientHealth(send_lag_p99_ms=0.5, cpu_share=0.97), None, "97% of a core"),
        (ClientHealth(send_lag_p99_ms=0.5, cpu_share=0.2), Floor(1.0, 0.1, 0.1, 5.0), "chunks a second"),
    ],
)
def test_a_trial_in_which_the_client_was_the_limit_proves_nothing(
    confirmation: Confirmation, client: ClientHealth, floor: Floor | None, says: str
) -> None:
    evidence = replace(confirmation(), client_floor=floor)
    lying = altered(evidence, 2, evidence.deployment, client=client)
    verdict = soundness_doubts.verify(lying)
    assert verdict.status == "INCONCLUSIVE" and says in verdict.sentence
    assert verdict.evidence == (lying.trials[0 if floor else 2].id,)  # the floor is the same for all
    assert judge("confirm", lying).status == "INCONCLUSIVE"


def test_soundness_of_nothing_is_no_pass(confirmation: Confirmation) -> None:
    assert soundness_doubts.verify(confirmation().about(())).status == "ERROR"
