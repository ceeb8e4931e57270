"""Is it better, by enough, and at nobody's cost? Each rule with an honest story and its lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from pydantic import ValidationError

from tests.verifiers.conftest import Confirmation, with_measurement
from tools.deployment import Guardrail, Objective
from tools.measure import RequestRecord
from verifiers import Evidence, Plan, TrialEvidence
from verifiers.rules.effect import (
    guardrails_kept,
    improvement_primary,
    overfit_gain_kept,
    slices_kept,
    slo_kept,
    tails_kept,
)
from verifiers.score import score

WOBBLE = (1.0, 1.01, 0.99, 1.0, 1.0, 0.99, 1.01, 1.0)
"What a launch's luck does to it, by place."


def aiming(evidence: Evidence, metric: str, *rails: Guardrail) -> Evidence:
    """The same confirmation of a deployment with another objective and guardrails, planned for it."""
    assert evidence.plan is not None
    changed = {"objective": Objective(metric=metric, min_effect=0.1), "guardrails": rails}
    deployment = evidence.deployment.model_copy(update=changed)
    plan = Plan.draw(evidence.plan.run, deployment, evidence.plan.baseline_digest, evidence.plan.candidate_digest)
    return replace(evidence, deployment=deployment, plan=plan, plan_digest=plan.digest)


def told(evidence: Evidence, metric: str, baseline: float, candidate: float, noise: float = 1.0) -> Evidence:
    """The same trials with another value of one metric, a little luck in each."""
    values = {"A": baseline, "B": candidate}
    return evidence.about(
        replace(t, summary={**t.summary, metric: values[t.arm] * (1 + noise * (WOBBLE[n] - 1))})
        for n, t in enumerate(evidence.trials)
    )


def slowed(evidence: Evidence, waits: Callable[[TrialEvidence, RequestRecord], float]) -> Evidence:
    """The same trials, the candidate's requests later by so many seconds."""

    def later(trial: TrialEvidence, record: RequestRecord) -> RequestRecord:
        wait = waits(trial, record)
        times = tuple(moment + wait for moment in record.token_times_s)
        first = times[0] if times else None
        return replace(record, token_times_s=times, first_chunk_s=first, end_s=record.end_s + wait)

    made = []
    for trial in evidence.trials:
        if trial.arm == "B" and trial.measurement is not None:
            records = tuple(later(trial, record) for record in trial.measurement.records)
            trial = with_measurement(trial, evidence.deployment, records=records)
        made.append(trial)
    return evidence.about(made)


# improvement.primary
def test_an_undecided_confirmation_says_how_much_more_it_would_take(confirmation: Confirmation) -> None:
    verdict = improvement_primary.verify(confirmation((0.80, 0.90, 0.79, 0.85), (0.78, 0.72, 0.76, 0.65)))
    assert verdict.status == "INCONCLUSIVE"
    assert "further launches an arm to show" in verdict.sentence and "at the noise seen" in verdict.sentence


def test_the_evidence_of_an_improvement_stands_in_its_sentence(confirmation: Confirmation) -> None:
    verdict = improvement_primary.verify(confirmation())
    assert verdict.status == "PASS" and "to 1, p = 0.0278: better by 74" in verdict.sentence
    assert improvement_primary.verify(replace(confirmation(), plan=None)).status == "ERROR"


# slo.kept
def test_the_promise_is_held_against_the_promised_load_alone(confirmation: Confirmation) -> None:
    evidence = confirmation(candidate=(0.2, 0.2, 0.9, 0.9))  # the second block has another load
    assert {t.load_factor for t in evidence.trials[4:]} & {0.8, 1.2}
    assert slo_kept.verify(evidence).status == "PASS"
    assert slo_kept.verify(evidence.about(evidence.trials[4:])).status == "ERROR"


# guardrails.kept
RAIL = Guardrail(metric="mean_tpot_ms", max_regression=0.05)


@pytest.mark.parametrize(
    ("candidate", "noise", "status"),
    [
        (10.0, 1.0, "PASS"),
        (9.0, 1.0, "PASS"),
        (12.0, 1.0, "FAIL"),
        (10.4, 3.0, "INCONCLUSIVE"),
        (10.0, 30.0, "INCONCLUSIVE"),
    ],
)
def test_a_guardrail_must_be_shown_to_be_kept(
    confirmation: Confirmation, candidate: float, noise: float, status: str
) -> None:
    evidence = told(aiming(confirmation(), "p95_ttft_ms", RAIL), "mean_tpot_ms", 10.0, candidate, noise)
    assert guardrails_kept.verify(evidence).status == status


def test_a_step_that_means_nothing_is_no_worsening(confirmation: Confirmation) -> None:
    """One stutter in a thousand answers more than none is beyond any share, and nothing."""
    evidence = aiming(confirmation(), "p95_ttft_ms", Guardrail(metric="stutter_share", max_regression=0.05))
    assert guardrails_kept.verify(told(evidence, "stutter_share", 0.0, 0.001, 0.0)).status == "PASS"
    assert guardrails_kept.verify(told(evidence, "stutter_share", 0.0, 0.2, 0.0)).status == "FAIL"


def test_with_several_guardrails_one_by_chance_is_no_refusal(confirmation: Confirmation) -> None:
    """Two blocks can't be surer than 1/36 of anything; of two questions, that is 1/18 and shows nothing."""
    rails = RAIL, Guardrail(metric="output_throughput", max_regression=0.05)
    evidence = told(aiming(confirmation(), "p95_ttft_ms", *rails), "mean_tpot_ms", 10.0, 12.0)
    assert guardrails_kept.verify(evidence).status == "INCONCLUSIVE"


def test_a_guardrail_that_is_zero_may_stay_zero_and_not_rise(confirmation: Confirmation) -> None:
    evidence = aiming(confirmation(), "p95_ttft_ms", Guardrail(metric="timed_out", max_regression=0.0))
    assert guardrails_kept.verify(evidence).status == "PASS"
    rose = guardrails_kept.verify(told(evidence, "timed_out", 0.0, 2.0))
    assert rose.status == "FAIL" and "timed_out is 2, 0 with the baseline" in rose.sentence
    once = evidence.about(
        replace(t, summary={**t.summary, "timed_out": float(t.id == evidence.arm("B")[0].id)}) for t in evidence.trials
    )
    assert guardrails_kept.verify(once).status == "INCONCLUSIVE"
    lost = evidence.about(replace(t, summary={}) for t in evidence.trials)
    assert guardrails_kept.verify(lost).status == "ERROR"


def test_what_is_best_at_zero_is_guarded_and_no_objective() -> None:
    with pytest.raises(ValidationError, match="make it a guardrail"):
        Objective(metric="stutter_share", min_effect=0.1)


# overfit.gain_kept
def searched(evidence: Evidence, baseline_ms: float, candidate_ms: float, others: int = 0) -> Evidence:
    """The same after a search that measured the candidate, and so many others."""
    assert evidence.candidate is not None
    standing = evidence.search[0]
    metric = "p95_ttft_ms"
    mine = replace(standing, id="t1", role="search", arm="B", config=evidence.candidate)
    trials = [replace(standing, summary={metric: baseline_ms}), replace(mine, summary={metric: candidate_ms})]
    trials += [replace(mine, id=f"t{n + 2}", config=evidence.baseline) for n in range(others)]
    return replace(evidence, search=tuple(trials))


def test_a_gain_that_fresh_requests_do_not_show_was_fitted(confirmation: Confirmation) -> None:
    mild = confirmation((0.80, 0.81, 0.80, 0.81), (0.70, 0.71, 0.70, 0.71))
    verdict = overfit_gain_kept.verify(searched(mild, 800.0, 200.0))
    assert verdict.status == "FAIL" and "fitted to the requests of the search" in verdict.sentence
    assert overfit_gain_kept.verify(searched(mild, 800.0, 700.0)).status == "PASS"
    assert overfit_gain_kept.verify(searched(mild, 800.0, 640.0)).status == "PASS"  # more than half of it is left


def test_the_winner_of_many_may_have_been_lucky(confirmation: Confirmation) -> None:
    """The noise is 8 %: the best of twenty may look 40 % better and be 12 %."""
    noisy = confirmation((0.80, 0.90, 0.75, 0.85), (0.72, 0.80, 0.70, 0.76))
    assert overfit_gain_kept.verify(searched(noisy, 800.0, 480.0, others=19)).status == "PASS"
    sure = confirmation((0.80, 0.80, 0.80, 0.80), (0.76, 0.76, 0.76, 0.76))
    assert overfit_gain_kept.verify(searched(sure, 800.0, 480.0, others=19)).status == "FAIL"


def test_a_gain_that_turns_at_other_loads_is_refused(confirmation: Confirmation) -> None:
    turned = confirmation((0.80, 0.81, 0.80, 0.81), (0.40, 0.41, 0.99, 0.98))
    verdict = overfit_gain_kept.verify(turned)
    assert verdict.status == "FAIL" and "at loads 20 % off" in verdict.sentence
    assert overfit_gain_kept.verify(confirmation()).status == "PASS"
    assert overfit_gain_kept.verify(confirmation().about(())).status == "ERROR"


# tails.kept
def test_a_better_mean_may_not_hide_a_few_who_wait_much_longer(confirmation: Confirmation) -> None:
    evidence = aiming(confirmation(), "mean_ttft_ms")
    assert tails_kept.verify(evidence).status == "PASS"
    hidden = slowed(evidence, lambda trial, record: 2.0 if record.index == 4 else 0.0)
    verdict = tails_kept.verify(hidden)
    assert improvement_primary.verify(hidden).status == "PASS"
    assert verdict.status == "FAIL" and "p95_ttft_ms is worse by" in verdict.sentence
    assert tails_kept.verify(aiming(hidden, "p95_ttft_ms")).status == "PASS"  # the objective sees it itself


def test_a_rate_has_a_tail_too_and_who_timed_out_is_in_it(confirmation: Confirmation) -> None:
    evidence = aiming(confirmation(), "output_throughput")
    given_up = []
    for t in evidence.trials:
        if t.arm == "B" and t.measurement is not None:
            records = list(t.measurement.records)
            records[3] = replace(records[3], outcome="timed_out", end_s=records[3].scheduled_s + 30.0)
            t = with_measurement(t, evidence.deployment, records=tuple(records))
        given_up.append(t)
    assert tails_kept.verify(evidence).status == "PASS"
    assert "e2el" in tails_kept.verify(evidence.about(given_up)).sentence
    assert tails_kept.verify(evidence.about(given_up)).status == "FAIL"


def test_a_tail_that_failures_alone_hide_is_worse(confirmation: Confirmation) -> None:
    evidence = aiming(confirmation(), "mean_ttft_ms")
    refused = []
    for t in evidence.trials:
        if t.arm == "B" and t.measurement is not None:
            records = tuple(replace(r, outcome="failed") if r.index < 2 else r for r in t.measurement.records)
            t = with_measurement(t, evidence.deployment, records=records)
        refused.append(t)
    assert "too many failed" in tails_kept.verify(evidence.about(refused)).sentence
    assert tails_kept.verify(evidence.about(())).status == "ERROR"
    unmeasured = evidence.about(replace(t, measurement=None, summary={}) for t in evidence.trials)
    assert tails_kept.verify(unmeasured).status == "ERROR"


# slices.kept
def long_prompts(trial: TrialEvidence) -> Mapping[int, bool]:
    middle = sorted(trial.prompt_words)[len(trial.prompt_words) // 2]
    return {index: words >= middle for index, words in enumerate(trial.prompt_words)}


def test_an_easy_majority_may_not_pay_for_the_hard_ones(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert slices_kept.verify(evidence).status == "PASS"
    hard = slowed(evidence, lambda trial, record: 2.5 if long_prompts(trial)[record.index] else 0.0)
    verdict = slices_kept.verify(hard)
    assert verdict.status == "FAIL" and "long prompts" in verdict.sentence
    assert slices_kept.verify(hard.about(hard.trials[:4])).status == "PASS"  # one block is no proof of harm
    slightly = slowed(evidence, lambda trial, record: 0.1 if long_prompts(trial)[record.index] else 0.0)
    assert slices_kept.verify(slightly).status == "PASS"


def test_a_slice_that_kept_its_promise_keeps_it(confirmation: Confirmation) -> None:
    evidence = confirmation(baseline=(0.3,) * 4, candidate=(0.2,) * 4)
    broken = slowed(evidence, lambda trial, record: 0.3 if long_prompts(trial)[record.index] else 0.0)
    verdict = slices_kept.verify(broken.about(broken.trials[:4]))  # one block: nothing beyond chance, but the promise
    assert verdict.status == "FAIL" and "keeps the promise of 400" in verdict.sentence


def test_later_turns_are_a_kind_of_request(confirmation: Confirmation) -> None:
    evidence = confirmation()
    turned = evidence.about(
        with_measurement(
            t,
            evidence.deployment,
            records=tuple(replace(r, turn=r.index % 2) for r in t.measurement.records),
        )
        for t in evidence.trials
        if t.measurement is not None
    )
    assert slices_kept.verify(turned).status == "PASS"
    slow = slices_kept.verify(slowed(turned, lambda trial, record: 2.5 if record.turn else 0.0))
    assert slow.status == "FAIL" and "later turns" in slow.sentence


def test_what_is_not_known_of_the_prompts_is_no_pass(confirmation: Confirmation) -> None:
    evidence = confirmation()
    blind = evidence.about(replace(t, prompt_words=()) for t in evidence.trials)
    assert slices_kept.verify(blind).status == "ERROR"
    assert slices_kept.verify(evidence.about(())).status == "ERROR"


# score
def test_the_score_is_the_gain_and_a_tenth_of_what_the_guarded_gained(confirmation: Confirmation) -> None:
    evidence = aiming(confirmation((0.8,) * 4, (0.4,) * 4), "p95_ttft_ms")
    assert score(evidence) == pytest.approx(0.5)
    rail = Guardrail(metric="output_throughput", max_regression=0.05)
    guarded = aiming(evidence, "p95_ttft_ms", rail)
    assert score(told(guarded, "output_throughput", 10.0, 20.0, 0.0)) == pytest.approx(0.55)
    assert score(told(guarded, "output_throughput", 20.0, 10.0, 0.0)) == pytest.approx(0.4)
    assert score(confirmation((0.4,) * 4, (0.8,) * 4)) == 0.0
    assert score(evidence.about(())) == 0.0
