"""Attacks on the design of the confirmation (class B): chosen afterwards, too few, repeated, counted twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tools.ledger import Entry
from tools.targets.target import Identity
from verifiers.evidence import Attempt, Evidence, TrialEvidence
from verifiers.gauntlet.case import Case
from verifiers.gauntlet.edit import named, with_data, with_entries, with_measurement, with_trials
from verifiers.gauntlet.honest import DEPLOYMENT, Story, tell, usual
from verifiers.gauntlet.load import Speed
from verifiers.plan import Plan

__all__ = ["CASES"]


def _with_plan(plan: Plan) -> Evidence:
    """Another plan in the ledger, its hash with it."""
    evidence = replace(usual(), plan=plan, plan_digest=plan.digest)
    changed = {"plan": plan.to_json(), "plan_digest": plan.digest}
    return with_data(evidence, "plan", lambda entry: {**entry.data, **changed})


def _planned() -> Plan:
    plan = usual().plan
    assert plan is not None
    return plan


def _another_metric() -> Evidence:
    return _with_plan(replace(_planned(), metric="mean_ttft_ms"))


def _smaller_effect() -> Evidence:
    return _with_plan(replace(_planned(), min_effect=0.001))


def _without_guardrails() -> Evidence:
    return _with_plan(replace(_planned(), guardrails={}))


def _edited_after() -> Evidence:
    """The plan that stands in the ledger isn't the one whose hash does."""
    other = replace(_planned(), blocks=tuple(replace(block, load_factor=1.0) for block in _planned().blocks))
    return replace(usual(), plan_digest=other.digest)


def _planned_afterwards() -> Evidence:
    """The plan was written after the trials that it plans."""
    evidence = usual()
    last = max(trial.seq for trial in evidence.trials)

    def moved(entries: tuple[Entry, ...]) -> list[Entry]:
        plan = next(entry for entry in entries if entry.kind == "plan")
        rest = [entry for entry in entries if entry.kind != "plan"]
        place = next(index for index, entry in enumerate(rest) if entry.seq > last)
        return [*rest[:place], plan, *rest[place:]]

    late = with_entries(evidence, moved)
    seqs = {entry.data["id"]: entry.seq for entry in late.of_kind("trial")}

    def numbered(trials: tuple[TrialEvidence, ...]) -> tuple[TrialEvidence, ...]:
        return tuple(replace(trial, seq=seqs[trial.id]) for trial in trials)

    plan = next(entry for entry in late.entries if entry.kind == "plan")
    return replace(
        late,
        plan_seq=plan.seq,
        trials=numbered(late.trials),
        search=numbered(late.search),
        extra=numbered(late.extra),
    )


def _swapped_order() -> Evidence:
    """All launches of one arm were measured before those of the other."""
    evidence = usual()
    order = sorted(evidence.trials, key=lambda trial: trial.arm)
    places = [trial.seq for trial in evidence.trials]
    return replace(evidence, trials=tuple(replace(t, seq=seq) for t, seq in zip(order, places, strict=True)))


def _more_begun_than_told() -> Evidence:
    """Eleven launches of the confirmation were begun; the ledger tells the results of eight."""

    def added(entries: tuple[Entry, ...]) -> list[Entry]:
        found: list[Entry] = []
        for entry in entries:
            found.append(entry)
            if entry.kind == "trial.started" and entry.data["id"] in ("c2", "c3", "c5"):
                twin = {**entry.data, "id": f"c{entry.data['id'][1:]}0"}
                found.append(replace(entry, data=twin, key=None, hash=""))
        return found

    return with_entries(usual(), added)


def _retried() -> Evidence:
    """Results of the confirmation that are in the ledger, and not among those that were judged."""

    def added(entries: tuple[Entry, ...]) -> list[Entry]:
        found: list[Entry] = []
        for entry in entries:
            found.append(entry)
            if entry.kind == "trial" and entry.data["id"] in ("c2", "c3"):
                twin = {**entry.data, "id": f"{entry.data['id']}x"}
                found.append(replace(entry, data=twin, key=f"trial:{twin['id']}", hash=""))
        return found

    return with_entries(usual(), added)


def _one_launch() -> Evidence:
    """One launch of each arm answered for all launches of its arm."""
    evidence = usual()
    identities: dict[str, Identity | None] = {}
    for arm in ("A", "B"):
        first = evidence.arm(arm)[0].measurement
        assert first is not None
        identities[arm] = first.identity_before

    def same_launch(trial: TrialEvidence) -> TrialEvidence:
        assert trial.measurement is not None
        identity = identities[trial.arm]
        measurement = replace(trial.measurement, identity_before=identity, identity_after=identity)
        return replace(trial, measurement=measurement)

    return with_trials(evidence, lambda trial: trial.role == "confirm", same_launch)


def _told_again() -> Evidence:
    """Launches of a second each; one launch's load is told again for the next one of its arm."""
    workload = {
        "class": "chat",
        "requests": 10,
        "prompt_tokens": {"min": 16, "max": 64},
        "output_tokens": 8,
        "arrivals": {"kind": "burst"},
    }
    evidence = tell(Story(launch_s=0.5).changed(workload=workload))
    first = next(trial for trial in evidence.trials if trial.id == "c2").measurement
    assert first is not None
    return with_measurement(
        evidence,
        named("c3"),
        lambda own: replace(first, identity_before=own.identity_before, identity_after=own.identity_after),
    )


def _too_few() -> Evidence:
    """Two launches of each arm, at a level that asks for no more."""
    return tell(
        Story(level=0.2, candidate=Speed().faster(0.4)).changed(
            acceptance={"trials_per_arm": 12, "alpha": 0.2}, guardrails=[]
        )
    )


def _own_level() -> Evidence:
    """The owner asks for a level of 0.01; the plan has one of its own, for which two launches an arm do."""
    return tell(
        Story(level=0.5, candidate=Speed().faster(0.4)).changed(
            acceptance={"trials_per_arm": 12, "alpha": 0.01}, guardrails=[]
        )
    )


def _seventh_try() -> Evidence:
    """Six confirmations of the same change came to nothing today; this is the seventh."""
    began = usual().entries[0].time
    tries = tuple(Attempt(f"chat-{number}", began - 3600.0 * number, "INCONCLUSIVE") for number in range(6, 0, -1))
    return tell(Story(attempts=tries, candidate=Speed().faster(0.4)))


def _not_paid_for() -> Evidence:
    """The second confirmation of a day is judged as if it were the first."""
    began = usual().entries[0].time
    return tell(Story(attempts=(Attempt("chat-1", began - 3600.0, "INCONCLUSIVE"),), level=0.05))


def _seen_seed() -> Evidence:
    """The search measured on the very requests that the confirmation measures."""
    return tell(Story(search_seed=_planned().blocks[1].seed))


def _fitted_to_the_search() -> Evidence:
    """A gain of 60 % in the search, of 12 % on requests that nobody had seen."""
    steady = Speed(launch_cv=0.004, request_cv=0.05)
    return tell(Story(baseline=steady, searched=steady.faster(0.40), candidate=steady.faster(0.88)))


def _already_optimal() -> Evidence:
    """The candidate is as fast as the baseline."""
    return tell(Story(candidate=Speed()))


def _tiny_gain() -> Evidence:
    """A gain that is there and too small to be worth a change."""
    steady = Speed(launch_cv=0.001, request_cv=0.02)
    return tell(Story(baseline=steady, candidate=steady.faster(0.985)))


def _promise_broken() -> Evidence:
    """First tokens are faster, and the promise on the gaps is broken."""
    slow = Speed().faster(0.6)
    deployment: Mapping[str, Any] = {**DEPLOYMENT, "slo": {"tpot_ms": {"p95": 16.0}}, "guardrails": []}
    return tell(Story(deployment=deployment, candidate=replace(slow, itl_s=0.018)))


def _promise_just_missed() -> Evidence:
    """First tokens are faster, and the promise on the gaps is missed by a few percent."""
    slow = Speed(launch_cv=0.01).faster(0.6)
    deployment: Mapping[str, Any] = {**DEPLOYMENT, "slo": {"tpot_ms": {"p95": 16.0}}, "guardrails": []}
    return tell(Story(deployment=deployment, candidate=replace(slow, itl_s=0.0153)))


def _guardrail_broken() -> Evidence:
    """First tokens are faster, and the gaps worse than the owner allows."""
    slow = Speed().faster(0.6)
    rails = [{"metric": "mean_tpot_ms", "max_regression": 0.05}]
    return tell(Story(candidate=replace(slow, itl_s=0.0145)).changed(guardrails=rails))


CASES: tuple[Case, ...] = (
    Case("d01", "B18", "plan.goalposts", "the metric was chosen after the deployment was written", _another_metric),
    Case("d02", "B18", "plan.goalposts", "the least effect was lowered", _smaller_effect),
    Case("d03", "B18", "plan.goalposts", "the guardrails were left out", _without_guardrails),
    Case("d04", "B18", "plan.kept", "the plan was edited after it was hashed", _edited_after),
    Case("d05", "B18", "plan.kept", "the plan was written after the trials", _planned_afterwards),
    Case("d06", "B07", "plan.kept", "the trials were measured in another order than planned", _swapped_order),
    Case("d07", "B07", "plan.all_counted", "more launches were begun than are told of", _more_begun_than_told),
    Case("d08", "B07", "plan.all_counted", "measured twice, the better one told", _retried),
    Case("d18", "B08", "replication.launches", "one launch is told twice", _told_again),
    Case("d09", "B08", "replication.launches", "one launch of each arm stands for all", _one_launch),
    Case("d10", "B10", "replication.enough", "two launches of each arm", _too_few),
    Case("d21", "B10", "replication.enough", "a plan with a level of its own", _own_level),
    Case("d11", "B11", "attempts.bounded", "the seventh confirmation of the same change", _seventh_try),
    Case("d19", "B11", "attempts.bounded", "the second attempt at the level of the first", _not_paid_for),
    Case("d12", "B12", "plan.hidden_seeds", "the search saw the confirmation's requests", _seen_seed),
    Case("d13", "B12", "overfit.gain_kept", "most of the gain is gone on new requests", _fitted_to_the_search),
    Case("d14", "E02", "improvement.primary", "no gain at all", _already_optimal),
    Case("d15", "E02", "improvement.primary", "a gain below the least effect", _tiny_gain),
    Case("d20", "B17", "slo.kept", "the promise on another metric is just missed", _promise_just_missed),
    Case("d16", "B17", "slo.kept", "the promise on another metric is broken", _promise_broken),
    Case("d17", "A08", "guardrails.kept", "a guardrail is broken", _guardrail_broken),
)
