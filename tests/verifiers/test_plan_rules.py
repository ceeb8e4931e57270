"""What a plan fixes, and every way not to keep to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.verifiers.conftest import Confirmation, trial, with_measurement
from tools.deployment import Acceptance, Deployment
from tools.ledger import Entry
from verifiers import Attempt, Evidence, Plan, look_after
from verifiers.plan import DESIGN
from verifiers.rules.effect import improvement_primary
from verifiers.rules.plan import (
    attempts_bounded,
    drift_bracket,
    plan_all_counted,
    plan_goalposts,
    plan_hidden_seeds,
    plan_kept,
    replication_enough,
    replication_launches,
)


def planned(evidence: Evidence, **changes: Any) -> Evidence:
    """The evidence under a changed plan that was hashed as such."""
    assert evidence.plan is not None
    plan = replace(evidence.plan, **changes)
    return replace(evidence, plan=plan, plan_digest=plan.digest)


def recorded(evidence: Evidence, *entries: tuple[str, dict[str, Any]]) -> Evidence:
    made = tuple(Entry.seal(100 + n, 1.0, kind, None, data, "0" * 64) for n, (kind, data) in enumerate(entries))
    return replace(evidence, entries=(*evidence.entries, *made))


def under(confirmation: Confirmation, waits: Callable[[int, str], float], **acceptance: Any) -> Evidence:
    """A confirmation under another acceptance section, measured until its rule stops; `waits` gives the TTFT in seconds
    of a launch by its place and arm."""
    template = confirmation()
    assert template.candidate is not None
    changed = {"acceptance": Acceptance(**acceptance)}
    deployment = template.deployment.model_copy(update=changed)
    plan = Plan.draw("run-1", deployment, template.baseline.digest, template.candidate.digest)
    evidence = replace(template, deployment=deployment, plan=plan, plan_digest=plan.digest, trials=())
    for number, slot in enumerate(plan.slots):
        config = template.baseline if slot.arm == "A" else template.candidate
        made = trial(
            f"c{number}",
            config,
            slot.seed,
            ttft_s=waits(number, slot.arm),
            arm=slot.arm,
            seq=20 + number,
            load_factor=slot.load_factor,
            block=slot.block,
            deployment=deployment,
        )
        evidence = evidence.about((*evidence.trials, made))
        if number % 4 == 3:
            found = look_after(evidence, plan)
            assert found is not None
            if found.decision != "go_on":
                break
    return evidence


# plan.kept
def test_a_plan_that_was_changed_after_it_was_hashed_is_refused(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert evidence.plan is not None and plan_kept.verify(evidence).status == "PASS"
    fewer = replace(evidence.plan, blocks=evidence.plan.blocks[:1])
    assert "hashed" in plan_kept.verify(replace(evidence, plan=fewer)).sentence
    assert "acceptance" in plan_kept.verify(replace(evidence, plan=fewer, plan_digest=fewer.digest)).sentence
    assert plan_kept.verify(planned(evidence, design="mine")).status == "FAIL"
    assert plan_kept.verify(planned(evidence, noise=0.001)).status == "FAIL"
    assert plan_kept.verify(replace(evidence, plan=None)).status == "ERROR"
    assert plan_kept.verify(replace(evidence, candidate=evidence.baseline)).status == "FAIL"


def test_trials_left_out_reordered_or_measured_too_early_are_noticed(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert plan_kept.verify(evidence.about(())).status == "ERROR"
    assert plan_kept.verify(evidence.about(evidence.trials[:-2])).status == "ERROR"
    shuffled = (evidence.trials[1], evidence.trials[0], *evidence.trials[2:])
    assert plan_kept.verify(evidence.about(shuffled)).status == "FAIL"
    early = (replace(evidence.trials[0], seq=2), *evidence.trials[1:])
    assert "before the plan" in plan_kept.verify(evidence.about(early)).sentence
    easier = (replace(evidence.trials[0], spec_digest="easier"), *evidence.trials[1:])
    assert "another workload" in plan_kept.verify(evidence.about(easier)).sentence


def test_stopping_while_it_looks_good_and_going_on_until_it_does_are_seen(confirmation: Confirmation) -> None:
    clear = confirmation()
    assert "as its rule says: better by" in plan_kept.verify(clear).sentence
    early = plan_kept.verify(clear.about(clear.trials[:4]))
    assert early.status == "FAIL" and "where its rule goes on" in early.sentence
    # Of two blocks one that shows nothing can't be made up for, yet a second was measured.
    late = plan_kept.verify(confirmation((0.8, 0.9, 0.79, 0.81), (0.8, 0.9, 0.19, 0.22)))
    assert late.status == "FAIL" and "it went on after block 1" in late.sentence


def test_a_clear_gain_stops_long_before_the_most_blocks(confirmation: Confirmation) -> None:
    evidence = under(confirmation, lambda number, arm: 0.8 if arm == "A" else 0.3, trials_per_arm=20, alpha=0.01)
    assert len(evidence.trials) == 12
    verdict = plan_kept.verify(evidence)
    assert verdict.status == "PASS" and "after block 3 of at most 10" in verdict.sentence


def test_a_look_that_was_recorded_otherwise_than_the_records_say_is_seen(confirmation: Confirmation) -> None:
    evidence = confirmation()
    honest = recorded(
        evidence, ("look", {"blocks": 1, "decision": "go_on"}), ("look", {"blocks": 2, "decision": "accept"})
    )
    assert plan_kept.verify(honest).status == "PASS"
    lying = recorded(evidence, ("look", {"blocks": 1, "decision": "accept"}))
    assert "look 1 is recorded as accept" in plan_kept.verify(lying).sentence


# plan.goalposts
@pytest.mark.parametrize(
    "moved",
    [
        {"metric": "mean_tpot_ms"},
        {"min_effect": 0.01},
        {"alpha": 0.2},
        {"guardrails": {}},
        {"target": 0.9},
    ],
)
def test_a_plan_that_aims_elsewhere_than_was_declared_is_refused(
    confirmation: Confirmation, moved: dict[str, Any]
) -> None:
    evidence = confirmation()
    assert plan_goalposts.verify(evidence).status == "PASS"
    assert plan_goalposts.verify(planned(evidence, **moved)).status == "FAIL"


def test_two_plans_or_another_deployment_at_the_start_are_refused(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert "2 plans" in plan_goalposts.verify(recorded(evidence, ("plan", {}), ("plan", {}))).sentence
    dumped = evidence.deployment.model_dump(mode="json", by_alias=True)
    early = Entry.seal(0, 1.0, "run.started", None, {"deployment": dumped}, "0" * 64)
    assert plan_goalposts.verify(replace(evidence, entries=(early,))).status == "PASS"
    easier = {**dumped, "slo": {"ttft_ms": {"p95": 9000}}}
    moved = Entry.seal(0, 1.0, "run.started", None, {"deployment": easier}, "0" * 64)
    assert plan_goalposts.verify(replace(evidence, entries=(moved,))).status == "FAIL"
    late = Entry.seal(99, 1.0, "run.started", None, {"deployment": dumped}, "0" * 64)
    assert plan_goalposts.verify(replace(evidence, entries=(late,))).status == "FAIL"
    assert plan_goalposts.verify(replace(evidence, plan=None)).status == "ERROR"


# plan.all_counted
def test_launches_that_were_begun_and_do_not_count_are_seen(confirmation: Confirmation) -> None:
    evidence = confirmation()
    begun = [("trial.started", {"id": t.id, "role": "confirm"}) for t in evidence.trials]
    assert plan_all_counted.verify(recorded(evidence, *begun)).status == "PASS"
    more = recorded(evidence, *begun, ("trial.started", {"id": "c99", "role": "confirm"}))
    assert "c99" in plan_all_counted.verify(more).sentence
    hidden = recorded(evidence, *begun, ("trial", {"id": "c77", "role": "confirm"}))
    assert "c77" in plan_all_counted.verify(hidden).sentence
    once_cut = plan_all_counted.verify(recorded(evidence, *begun, begun[0]))
    assert once_cut.status == "PASS" and "begun 2 times" in once_cut.sentence
    picked = plan_all_counted.verify(recorded(evidence, *begun, *begun[:1] * 3))
    assert picked.status == "FAIL" and "again and again" in picked.sentence
    resumed = [step for _ in range(3) for step in (("session", dict[str, Any]()), begun[0])]
    unlucky = plan_all_counted.verify(recorded(evidence, *begun, *resumed))
    assert unlucky.status == "INCONCLUSIVE" and "c0 4 times" in unlucky.sentence.replace(evidence.trials[0].id, "c0")


def test_a_launch_counts_once_and_none_is_no_pass(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert plan_all_counted.verify(evidence.about((*evidence.trials, evidence.trials[0]))).status == "FAIL"
    assert plan_all_counted.verify(evidence.about(())).status == "ERROR"


# plan.hidden_seeds
def test_seeds_that_were_seen_chosen_or_used_twice_are_refused(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert evidence.plan is not None
    blocks = evidence.plan.blocks
    assert plan_hidden_seeds.verify(evidence).status == "PASS"
    seen = replace(evidence, search=(replace(evidence.search[0], seed=blocks[0].seed),))
    assert "used in the search" in plan_hidden_seeds.verify(seen).sentence
    chosen = planned(evidence, blocks=(replace(blocks[0], seed=4711), *blocks[1:]))
    assert "someone chose them" in plan_hidden_seeds.verify(chosen).sentence
    twice = planned(evidence, blocks=(blocks[0], replace(blocks[1], seed=blocks[0].seed)))
    assert "same requests" in plan_hidden_seeds.verify(twice).sentence
    known = evidence.search[0].measurement
    assert known is not None
    repeated = with_measurement(evidence.trials[0], evidence.deployment, workload_digest=known.workload_digest)
    told = plan_hidden_seeds.verify(evidence.about((repeated, *evidence.trials[1:])))
    assert "very requests of the search" in told.sentence
    assert plan_hidden_seeds.verify(replace(evidence, plan=None)).status == "ERROR"


# attempts.bounded
def test_repeating_until_green_is_counted_paid_for_and_bounded(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert "first attempt" in attempts_bounded.verify(evidence).sentence
    once = (Attempt("run-0", 1.0, "FAIL"),)
    unpaid = attempts_bounded.verify(replace(evidence, attempts=once))
    assert unpaid.status == "FAIL" and "FAIL in run-0" in unpaid.sentence
    paid = replace(planned(evidence, attempts=1, level=0.025), attempts=once)
    told = attempts_bounded.verify(paid)
    assert told.status == "PASS" and "attempt 2 of at most 3" in told.sentence and "run-0" in told.sentence
    assert "at level 0.025, all together at 0.075" in told.sentence
    greedy = replace(planned(evidence, attempts=1, level=0.05), attempts=once)
    assert "level 0.05 at attempt 2" in attempts_bounded.verify(greedy).sentence
    many = replace(planned(evidence, attempts=3, level=0.0125), attempts=once * 3)
    assert "attempt 4 within a day" in attempts_bounded.verify(many).sentence
    assert attempts_bounded.verify(replace(evidence, plan=None)).status == "ERROR"


def test_a_later_attempt_has_a_smaller_level_and_blocks_enough_for_it(deployment: Deployment) -> None:
    first = Plan.draw("r", deployment, "a", "b")
    second = Plan.draw("r", deployment, "a", "b", attempts=1)
    assert (first.level, len(first.blocks), second.level, len(second.blocks)) == (0.05, 2, 0.025, 3)
    lenient = deployment.model_copy(update={"acceptance": Acceptance(alpha=0.3)})
    assert Plan.draw("r", lenient, "a", "b").level == 0.1
    assert first.design == DESIGN and first.digest != second.digest


@pytest.mark.parametrize(
    ("arrivals", "factors"),
    [
        ({"kind": "poisson", "rate_rps": 4.0}, {1.0, 0.8, 1.2}),
        ({"kind": "burst"}, {1.0}),
        ({"kind": "closed", "concurrency": 2}, {1.0}),
        ({"kind": "closed", "concurrency": 3}, {1.0, 2 / 3, 4 / 3}),
    ],
)
def test_a_plan_names_the_loads_that_can_be_offered(
    deployment: Deployment, arrivals: dict[str, Any], factors: set[float]
) -> None:
    data = deployment.model_dump(mode="json", by_alias=True)
    changed = {**data, "workload": {**data["workload"], "arrivals": arrivals}, "acceptance": {"alpha": 0.006}}
    plan = Plan.draw("r", Deployment.model_validate(changed), "a", "b")
    assert {block.load_factor for block in plan.blocks} == factors


def test_a_plan_foretells_its_power_from_the_noise_and_goes_through_json(deployment: Deployment) -> None:
    quiet = Plan.draw("r", deployment, "a", "b", noise=0.01)
    loud = Plan.draw("r", deployment, "a", "b", noise=0.2)
    assert quiet.power is not None and loud.power is not None
    assert quiet.power > 0.95 > 0.3 > loud.power
    assert Plan.from_json(loud.to_json()) == loud and loud.target == pytest.approx(0.2)


def test_a_plan_of_an_older_record_is_refused_and_breaks_nothing(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert evidence.plan is not None
    known = ("run", "baseline_digest", "candidate_digest", "metric", "min_effect", "alpha", "guardrails", "blocks")
    old = Plan.from_json({name: value for name, value in evidence.plan.to_json().items() if name in known})
    assert plan_goalposts.verify(replace(evidence, plan=old)).status == "FAIL"
    assert plan_kept.verify(replace(evidence, plan=old, plan_digest=old.digest)).status == "FAIL"
    assert "not changing anything" in replication_enough.verify(replace(evidence, plan=old)).sentence
    assert improvement_primary.verify(replace(evidence, plan=old)).status == "INCONCLUSIVE"


def test_values_that_are_no_numbers_are_told_as_such(confirmation: Confirmation) -> None:
    evidence = confirmation()
    for odd in (float("nan"), float("inf"), 0.0):
        broken = (replace(evidence.trials[0], summary={"p95_ttft_ms": odd}), *evidence.trials[1:])
        assert improvement_primary.verify(evidence.about(broken)).status == "ERROR"
        assert drift_bracket.verify(evidence.about(broken)).status == "ERROR"


# replication
def test_one_launch_measured_over_and_over_is_one_observation(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert replication_launches.verify(evidence).status == "PASS"
    first = evidence.trials[0].measurement
    assert first is not None
    served = with_measurement(evidence.trials[3], evidence.deployment, identity_before=first.identity_before)
    told = replication_launches.verify(evidence.about((*evidence.trials[:3], served, *evidence.trials[4:])))
    assert told.status == "FAIL" and "one launch isn't two" in told.sentence
    copied = with_measurement(evidence.trials[3], evidence.deployment, records=first.records)
    told = replication_launches.verify(evidence.about((*evidence.trials[:3], copied, *evidence.trials[4:])))
    assert told.status == "FAIL" and "over again" in told.sentence
    nameless = with_measurement(evidence.trials[3], evidence.deployment, identity_before=None)
    assert replication_launches.verify(evidence.about((nameless,))).status == "ERROR"
    assert replication_launches.verify(evidence.about(())).status == "ERROR"


def test_too_few_launches_claim_nothing(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert replication_enough.verify(evidence).status == "PASS"
    short = replication_enough.verify(evidence.about(evidence.trials[:4]))
    assert short.status == "INCONCLUSIVE" and "takes 2 more of each" in short.sentence
    stricter = (
        replication_enough.verify(planned(evidence, level=0.001, blocks=evidence.plan.blocks * 2))
        if evidence.plan
        else None
    )
    assert stricter is not None and stricter.status == "INCONCLUSIVE"
    lopsided = replication_enough.verify(evidence.about((*evidence.trials, replace(evidence.trials[0], block=None))))
    assert lopsided.status == "FAIL"
    assert replication_enough.verify(evidence.about(())).status == "ERROR"
    # At a level of .2 a single block can convince every other rule.
    loose = replication_enough.verify(planned(evidence.about(evidence.trials[:4]), level=0.2, alpha=0.2))
    assert loose.status == "INCONCLUSIVE"
    lost = confirmation((0.8, 0.9, 0.79, 0.81), (0.8, 0.9, 0.19, 0.22))
    assert replication_enough.verify(lost.about(lost.trials[:4])).status == "PASS"  # it stopped, and claims no gain


# drift.bracket
def test_a_drift_as_large_as_the_effect_leaves_it_open_and_noise_does_not(confirmation: Confirmation) -> None:
    def drifting(number: int, arm: str) -> float:
        return (0.8 if arm == "A" else 0.70) * (1 + 0.05 * (number % 4)) * (1 + 0.001 * (number % 3))

    told = drift_bracket.verify(under(confirmation, drifting, trials_per_arm=8, alpha=0.01))
    assert told.status == "INCONCLUSIVE" and "drifted by" in told.sentence
    against_a_large_effect = under(
        confirmation, lambda number, arm: drifting(number, "A") * (1 if arm == "A" else 0.2), trials_per_arm=8
    )
    assert drift_bracket.verify(against_a_large_effect).status == "PASS"
    assert drift_bracket.verify(confirmation()).status == "PASS"
    assert drift_bracket.verify(confirmation().about(())).status == "ERROR"


def test_honest_noise_hardly_ever_looks_like_a_drift(confirmation: Confirmation) -> None:
    random = np.random.default_rng(21)
    template = confirmation()
    flagged = 0
    for _ in range(150):
        waits = random.normal(1, 0.06, 8)
        trials = tuple(
            replace(t, summary={**t.summary, "p95_ttft_ms": 800 * waits[n] * (0.9 if t.arm == "B" else 1)})
            for n, t in enumerate(template.trials)
        )
        flagged += drift_bracket.verify(template.about(trials)).status != "PASS"
    assert flagged <= 6  # of 150 at level .01
