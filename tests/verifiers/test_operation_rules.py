"""Does it start, last under stress, and can it be taken back?  One honest story and a lie for each way to fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.verifiers.conftest import Confirmation, with_measurement
from tests.verifiers.proofs import recorded
from tools.measure.workload import WorkloadSpec, materialise
from tools.service.soak import BURST_REQUESTS, MOST_SUSTAINED_S, SUSTAINED_LOAD, soaking
from verifiers import Evidence, TrialEvidence
from verifiers.rules.operation import RULES, headroom_soak, rollback_drill, start_time


def faults(evidence: Evidence) -> dict[str, str]:
    """Rules of this folder that don't pass, with what they say."""
    verdicts = [rule.verify(evidence) for rule in RULES]
    return {verdict.rule: verdict.status for verdict in verdicts if verdict.status != "PASS"}


def of_role(evidence: Evidence, role: str) -> TrialEvidence:
    return next(trial for trial in evidence.extra if trial.role == role)


def altered(evidence: Evidence, role: str, **changes: Any) -> Evidence:
    """The trial of `role` with other fields."""
    return replace(evidence, extra=tuple(replace(t, **changes) if t.role == role else t for t in evidence.extra))


def remeasured(evidence: Evidence, role: str, **changes: Any) -> Evidence:
    """The trial of `role` with another measurement."""
    trials = [with_measurement(t, evidence.deployment, **changes) if t.role == role else t for t in evidence.extra]
    return replace(evidence, extra=tuple(trials))


def test_an_honest_candidate_passes_them_all(confirmation: Confirmation) -> None:
    assert faults(confirmation()) == {}


# start.time
def ready(evidence: Evidence, arm: str, ready_s: float) -> Evidence:
    return evidence.about(replace(t, ready_s=ready_s) if t.arm == arm else t for t in evidence.trials)


@pytest.mark.parametrize(
    ("before_s", "after_s", "refused"),
    [(20.0, 29.0, False), (20.0, 31.0, True), (2.0, 6.9, False), (2.0, 7.5, True), (20.0, 3.0, False)],
)
def test_a_slower_start_is_refused_beyond_ratio_and_slack(
    confirmation: Confirmation, before_s: float, after_s: float, refused: bool
) -> None:
    evidence = ready(ready(confirmation(), "A", before_s), "B", after_s)
    assert faults(evidence) == ({"start.time": "FAIL"} if refused else {})


def test_one_slow_launch_is_luck_and_an_unknown_one_no_pass(confirmation: Confirmation) -> None:
    evidence = confirmation()
    slow = next(t for t in evidence.trials if t.arm == "B")
    assert faults(evidence.about(replace(t, ready_s=60.0) if t is slow else t for t in evidence.trials)) == {}
    assert start_time.verify(ready(evidence, "A", 0.0)).status == "ERROR"
    assert start_time.verify(evidence.about(evidence.arm("A"))).status == "ERROR"


# headroom.soak
def test_a_candidate_that_loses_requests_in_the_soak_is_refused(confirmation: Confirmation) -> None:
    evidence = confirmation()
    soak = of_role(evidence, "soak").measurement
    assert soak is not None
    for outcome in ("failed", "timed_out"):
        lost = (*soak.records[:-1], replace(soak.records[-1], outcome=outcome))
        assert faults(remeasured(evidence, "soak", records=lost)) == {"headroom.soak": "FAIL"}


@pytest.mark.parametrize("kind", ["oom", "crash", "timeout"])
def test_a_candidate_that_dies_in_the_soak_is_refused(confirmation: Confirmation, kind: str) -> None:
    verdict = headroom_soak.verify(altered(confirmation(), "soak", measurement=None, failure=kind))
    assert verdict.status == "FAIL" and kind in verdict.sentence


def test_a_port_that_was_taken_says_nothing_of_the_candidate(confirmation: Confirmation) -> None:
    evidence = altered(confirmation(), "soak", measurement=None, failure="port_taken")
    assert headroom_soak.verify(evidence).status == "ERROR"


def test_a_restart_in_the_soak_is_refused_and_the_clocks_jitter_is_not(confirmation: Confirmation) -> None:
    evidence = confirmation()
    soak = of_role(evidence, "soak").measurement
    assert soak is not None and soak.identity_after is not None
    who = soak.identity_after
    for changes in ({"pid": 7}, {"started_at": who.started_at + 9}, {"process_started_at": who.started_at + 9}):
        again = remeasured(evidence, "soak", identity_after=replace(who, **changes))
        assert faults(again) == {"headroom.soak": "FAIL"}
    jitter = replace(who, process_started_at=who.process_started_at + 0.02)
    assert faults(remeasured(evidence, "soak", identity_after=jitter)) == {}
    assert headroom_soak.verify(remeasured(evidence, "soak", identity_after=None)).status == "ERROR"


def held(evidence: Evidence, middle_mib: int, after_mib: int) -> Evidence:
    resources = dict(of_role(evidence, "soak").resources)
    resources |= {"rss_middle_bytes": float(middle_mib << 20), "rss_after_bytes": float(after_mib << 20)}
    return altered(evidence, "soak", resources=resources)


def test_memory_that_keeps_growing_is_refused(confirmation: Confirmation) -> None:
    evidence = confirmation()  # the closed formula sets 1024 MiB aside
    assert faults(held(evidence, 1000, 1190)) == {"headroom.soak": "FAIL"}
    assert faults(held(evidence, 1100, 1190)) == {}
    assert faults(held(evidence, 500, 1000)) == {}, "a cache whose blocks are touched one by one is no leak"
    assert headroom_soak.verify(altered(evidence, "soak", resources={"cores": 4})).status == "ERROR"


def test_preemptions_that_explode_are_refused(confirmation: Confirmation) -> None:
    evidence = confirmation()
    soak = of_role(evidence, "soak").measurement
    assert soak is not None and soak.counters_after is not None

    def preempted(times: float) -> Evidence:
        return remeasured(evidence, "soak", counters_after={**(soak.counters_after or {}), "preemptions": times})

    assert faults(preempted(soak.offered * 0.9)) == {}
    assert faults(preempted(soak.offered * 1.5)) == {"headroom.soak": "FAIL"}
    without = {name: value for name, value in soak.counters_after.items() if name != "preemptions"}
    assert headroom_soak.verify(remeasured(evidence, "soak", counters_after=without)).status == "ERROR"


def test_a_soak_of_something_else_is_no_soak(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert faults(altered(evidence, "soak", config=evidence.baseline)) == {"headroom.soak": "FAIL"}
    gentle = evidence.deployment.workload.digest
    assert faults(altered(evidence, "soak", spec_digest=gentle)) == {"headroom.soak": "FAIL"}
    without = replace(evidence, extra=tuple(t for t in evidence.extra if t.role != "soak"))
    assert faults(without) == {"headroom.soak": "INCONCLUSIVE"}


@pytest.mark.parametrize(
    "arrivals",
    [
        {"kind": "poisson", "rate_rps": 4},
        {"kind": "ramp", "from_rps": 2, "to_rps": 6},
        {"kind": "burst"},
        {"kind": "closed", "concurrency": 8},
    ],
)
def test_a_soak_is_a_burst_and_then_more_than_the_promised_load(arrivals: dict[str, Any]) -> None:
    base = {"requests": 100, "prompt_tokens": {"min": 10, "max": 20}, "output_tokens": 8, "timeout_s": 10}
    spec = WorkloadSpec.model_validate({**base, "arrivals": arrivals})
    soak = soaking(spec)
    assert soak.requests == 100 + BURST_REQUESTS
    due = [request.scheduled_s for request in materialise(soak, 5).requests]
    if arrivals["kind"] in ("burst", "closed"):
        assert soak.arrivals.kind == "closed" and soak.arrivals.concurrency == (
            10 if "concurrency" in arrivals else 100
        )
        return
    assert due[:BURST_REQUESTS] == [0.0] * BURST_REQUESTS
    assert due[-1] == pytest.approx(100 / (4 * SUSTAINED_LOAD))


@pytest.mark.parametrize(("rate_rps", "requests"), [(0.05, 400), (0.2, 100), (4.0, 100), (50.0, 20)])
def test_a_soak_ends_in_time_and_is_as_patient_as_its_backlog_is_long(rate_rps: float, requests: int) -> None:
    base = {"requests": requests, "prompt_tokens": {"min": 10, "max": 20}, "output_tokens": 8, "timeout_s": 10}
    spec = WorkloadSpec.model_validate({**base, "arrivals": {"kind": "poisson", "rate_rps": rate_rps}})
    soak = soaking(spec)
    due = [request.scheduled_s or 0.0 for request in materialise(soak, 5).requests]
    assert max(due) <= max(MOST_SUSTAINED_S, 1 / (rate_rps * SUSTAINED_LOAD)) + 1e-9
    free_s = 0.0  # a server that just keeps up with the promised load, one request after another
    for moment in due:
        free_s = max(free_s, moment) + 1 / rate_rps
        assert free_s - moment <= soak.timeout_s - spec.timeout_s + 1 / rate_rps + 1e-9


# rollback.drill
@pytest.mark.parametrize(
    "changes",
    [
        {"reverted": "name: chat\n"},
        {"before": "name: chat\n"},
        {"after": "name: chat\n"},
        {"config": {"max_num_seqs": 16}},
    ],
)
def test_a_reverse_change_that_does_not_reverse_is_refused(confirmation: Confirmation, changes: dict[str, Any]) -> None:
    assert faults(recorded(confirmation(), "rollback", **changes)) == {"rollback.drill": "FAIL"}


def test_one_byte_more_is_not_the_original_text(confirmation: Confirmation) -> None:
    evidence = confirmation()
    text = evidence.of_kind("rollback")[0].data["reverted"]
    assert faults(recorded(evidence, "rollback", reverted=text + "\n")) == {"rollback.drill": "FAIL"}


def test_a_missing_drill_or_record_is_no_pass(confirmation: Confirmation) -> None:
    evidence = confirmation()
    without = replace(evidence, extra=tuple(t for t in evidence.extra if t.role != "rollback"))
    assert rollback_drill.verify(without).status == "INCONCLUSIVE"
    assert rollback_drill.verify(replace(evidence, entries=())).status == "INCONCLUSIVE"
    assert rollback_drill.verify(recorded(evidence, "run.started", file_text=None)).status == "ERROR"
    assert rollback_drill.verify(recorded(evidence, "rollback", reverted=None)).status == "ERROR"
    elsewhere = altered(evidence, "rollback", seed=1)
    assert rollback_drill.verify(elsewhere).status == "ERROR"
    assert rollback_drill.verify(altered(evidence, "rollback", summary={})).status == "ERROR"


def slowed(evidence: Evidence, times: float) -> TrialEvidence:
    trial = of_role(evidence, "rollback")
    metric = evidence.deployment.objective.metric
    return replace(trial, id=f"x{times:g}", summary={**trial.summary, metric: trial.summary[metric] * times})


@pytest.mark.parametrize(("times", "inside"), [(1.0, True), (1.2, True), (0.85, True), (1.6, False), (0.4, False)])
def test_the_baselines_speed_must_come_back(confirmation: Confirmation, times: float, inside: bool) -> None:
    evidence = confirmation()
    again = replace(evidence, extra=(of_role(evidence, "soak"), slowed(evidence, times)))
    assert faults(again) == ({} if inside else {"rollback.drill": "FAIL"})


def test_a_noisy_launch_is_repeated_once_and_a_lasting_loss_refused(confirmation: Confirmation) -> None:
    evidence = confirmation()
    soak = of_role(evidence, "soak")

    def drilled(*times: float) -> Evidence:
        return replace(evidence, extra=(soak, *(slowed(evidence, factor) for factor in times)))

    assert faults(drilled(4.0, 1.05)) == {}
    assert faults(drilled(4.0, 3.9)) == {"rollback.drill": "FAIL"}
    assert faults(drilled(4.0, 3.9, 1.0)) == {"rollback.drill": "FAIL"}, "no repeating until it is green"


def test_the_band_is_as_wide_as_the_baselines_own_launches(confirmation: Confirmation) -> None:
    noisy = confirmation(baseline=(0.5, 1.0, 1.0, 0.5), candidate=(0.1, 0.11, 0.1, 0.12))
    again = replace(noisy, extra=(of_role(noisy, "soak"), slowed(noisy, 1.6)))
    assert faults(again) == {}


def test_another_config_after_the_rollback_is_refused(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert evidence.candidate is not None
    assert faults(altered(evidence, "rollback", config=evidence.candidate)) == {"rollback.drill": "FAIL"}
    stale = remeasured(evidence, "rollback", config_digest=evidence.candidate.digest)
    assert faults(stale) == {"rollback.drill": "FAIL"}
    assert faults(altered(evidence, "rollback", measurement=None, failure="crash")) == {"rollback.drill": "FAIL"}
