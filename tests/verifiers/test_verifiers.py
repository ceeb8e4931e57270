"""One honest story and at least one lie for each verifier."""

from dataclasses import replace
from typing import Any

import pytest

from tests.verifiers.conftest import SPACE, Confirmation, with_measurement
from tools.deployment import Deployment
from tools.evals.agreement import GreedyOutputs
from tools.evals.results import EvalResults
from tools.ledger import GENESIS, Entry
from tools.measure import Measurement
from verifiers import STAGES, Evidence, judge
from verifiers.rules.effect import guardrails_kept, improvement_primary, slo_kept
from verifiers.rules.measurement import service_failures
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


# duplicate, feasibility
def test_a_config_that_was_tried_is_not_tried_again(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert duplicate_config.verify(evidence.proposing(evidence.baseline, 1)).status == "FAIL"
    assert duplicate_config.verify(evidence.proposing(SPACE.resolve({"max_num_seqs": 9}), 1)).status == "PASS"
    spoilt = replace(evidence, search=tuple(replace(t, failure="port_taken") for t in evidence.search), trials=())
    assert duplicate_config.verify(spoilt.proposing(evidence.baseline, 1)).status == "PASS"


def test_what_does_not_fit_into_memory_is_refused_and_the_unknown_is_no_pass(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert feasibility_memory.verify(replace(evidence, memory_need_bytes=9 << 30)).status == "FAIL"
    assert feasibility_memory.verify(replace(evidence, memory_need_bytes=None)).status == "ERROR"


# slo
def test_a_broken_promise_fails_unless_the_baseline_breaks_it_by_more(confirmation: Confirmation) -> None:
    assert slo_kept.verify(confirmation()).status == "PASS"
    improved = slo_kept.verify(confirmation(candidate=(0.6, 0.6, 0.6, 0.6)))
    assert improved.status == "PASS" and "still out of SLO" in improved.sentence
    assert slo_kept.verify(confirmation(baseline=(0.3,) * 4, candidate=(0.6,) * 4)).status == "FAIL"


def test_a_value_at_its_bound_falls_on_either_side_by_chance(confirmation: Confirmation) -> None:
    """The promise is 400 ms; the p95 of a launch that waits 0.366 s is just under it, that of 0.371 s just over."""
    at_it = slo_kept.verify(confirmation(baseline=(0.364, 0.369) * 2, candidate=(0.371, 0.366) * 2))
    assert at_it.status == "INCONCLUSIVE" and "neither kept nor broken" in at_it.sentence, at_it.sentence
    both_over = slo_kept.verify(confirmation(baseline=(0.3811, 0.3809) * 2, candidate=(0.3812, 0.3810) * 2))
    assert both_over.status == "PASS" and "still out of SLO" in both_over.sentence, both_over.sentence


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
def test_a_worse_guardrail_is_refused_and_one_lost_request_is_anothers_question(
    confirmation: Confirmation, deployment: Deployment
) -> None:
    evidence = confirmation()
    assert guardrails_kept.verify(evidence).status == "PASS"
    records = list(measured(evidence, 1).records)
    records[0] = replace(records[0], outcome="failed", error="http_503")
    unlucky = altered(evidence, 1, deployment, records=tuple(records))
    assert guardrails_kept.verify(unlucky).status == service_failures.verify(unlucky).status == "PASS"
    slower = [
        with_measurement(t, deployment, window_s=2 * t.measurement.window_s) if t.arm == "B" and t.measurement else t
        for t in evidence.trials
    ]
    refused = guardrails_kept.verify(replace(evidence, trials=tuple(slower)))
    assert refused.status == "FAIL" and "output_throughput is worse by" in refused.sentence


# quality
def test_other_greedy_tokens_are_a_loss_but_the_baselines_own_flips_are_not(confirmation: Confirmation) -> None:
    evidence = confirmation()
    other = GreedyOutputs({f"p{i}": (999,) * 16 for i in range(8)})
    lossy = [replace(t, evals=EvalResults("s" * 64, other)) if t.arm == "B" else t for t in evidence.trials]
    assert greedy_tokens.verify(replace(evidence, trials=tuple(lossy))).status == "FAIL"

    def flipped(index: int) -> GreedyOutputs:
        return GreedyOutputs(
            {f"p{i}": (i, 999, *range(14)) if i == index else tuple(range(i, i + 16)) for i in range(8)}
        )

    wobbling = [replace(t, evals=EvalResults("s" * 64, flipped(n))) for n, t in enumerate(evidence.trials)]
    assert greedy_tokens.verify(replace(evidence, trials=tuple(wobbling))).status == "PASS"
    missing = tuple(replace(t, evals=None) if t.block == 0 and t.arm == "A" else t for t in evidence.trials[:5])
    assert greedy_tokens.verify(replace(evidence, trials=missing)).status == "ERROR"


# the gate
def test_what_is_not_better_is_told_as_such_whatever_it_costs(confirmation: Confirmation) -> None:
    evidence = confirmation(baseline=(0.3,) * 4, candidate=(0.6,) * 4)  # worse, and breaks the promise
    judgement = judge("confirm", evidence.about(evidence.trials[:4]))  # two blocks could win: the first has lost
    rules = [verdict.rule for verdict in judgement.verdicts]
    assert judgement.refusal is not None and judgement.refusal.rule == slo_kept.RULE
    better = judgement.verdicts[rules.index(improvement_primary.RULE)]
    assert better.status == "INCONCLUSIVE" and rules.index(better.rule) < rules.index(slo_kept.RULE)


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


def test_a_record_of_another_shape_is_an_error_and_no_traceback(confirmation: Confirmation) -> None:
    odd = Entry.seal(0, 0.0, "action", None, {"action": {"kind": "finish", "reason": ""}, "transcript": ["x"]}, GENESIS)
    judgement = judge("publish", replace(confirmation(), entries=(odd,)), exhaustive=True)
    told = next(verdict for verdict in judgement.verdicts if verdict.rule == "loop.actions_typed")
    assert told.status == "ERROR" and "isn't as the harness writes it" in told.sentence
