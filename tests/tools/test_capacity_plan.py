"""From a promise to replicas, spares, cost and manifests."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from tools.capacity import (
    Choice,
    Effort,
    FailureModel,
    FleetModel,
    Mix,
    Question,
    Terms,
    Traffic,
    Workplace,
    least_replicas,
    make_plan,
    most_rate,
    read_prices,
    read_replica,
)
from tools.capacity.manifests import CronMetadata, Hpa, ScaledObject, quantity
from tools.capacity.prices import Hardware
from tools.errors import UserError
from tools.measure import Slo
from tools.service import Replica, ServiceCurve

CURVE = ServiceCurve("quick", "", 16, 0.01, 2e-5, ((1, 0.01), (16, 0.02)), 300, 60)
SLO = Slo(ttft_ms={"p95": 60}, tpot_ms={"p95": 19})
EFFORT = Effort(requests=2000, most_requests=6000, simulations=2)
DAY = Traffic(tuple(60 + 50 * math.sin(h / 12 * 2 * math.pi) for h in range(12)), 7200, 0.0, (50.0,) * 12, "test")


def question(slo: Slo = SLO, curve: ServiceCurve = CURVE) -> Question:
    return Question(FleetModel(Replica(curve, 2048)), Mix.of_curve(curve), slo, 1.0, EFFORT)


def choice(name: str, price: float | None = None, **changes: Any) -> Choice:
    curve = replace(CURVE, name=name, **changes)
    listed = Hardware(name=name, price_per_hour=price, gpus_per_replica=2) if price is not None else None
    return Choice(name, FleetModel(Replica(curve, 2048)), Mix.of_curve(curve), listed)


@pytest.mark.parametrize("ceilings", [0.2, 3, 11])
def test_the_least_holds_and_one_fewer_doesnt(ceilings: float) -> None:
    asked = question()
    rate = ceilings * asked.most_rps
    found = least_replicas(asked, rate)
    assert found.holds
    assert found.replicas == 1 or not asked.ask(found.replicas - 1, rate).holds
    assert found.replicas >= asked.least_stable(rate)
    assert all(value <= SLO.bounds()[name] for name, value in found.values_ms.items())


def test_a_bad_start_leads_to_the_same_answer() -> None:
    rate = 6 * question().most_rps
    answers = {least_replicas(question(), rate, start=start).replicas for start in (1, 7, 40, None)}
    assert len(answers) == 1


def test_a_tighter_promise_and_more_traffic_never_need_fewer() -> None:
    rate = 5 * question().most_rps
    loose, tight = question(Slo(tpot_ms={"p95": 19})), question(Slo(tpot_ms={"p95": 13}))
    assert least_replicas(loose, rate).replicas < least_replicas(tight, rate).replicas
    assert least_replicas(loose, rate).replicas <= least_replicas(loose, rate * 1.5).replicas


def test_below_the_floor_no_number_is_searched() -> None:
    asked = question(Slo(ttft_ms={"p50": 2}))
    with pytest.raises(UserError, match=r"no number of replicas.*p50_ttft_ms is .* promised 2"):
        least_replicas(asked, 10.0)
    assert asked.spent == 0
    assert most_rate(asked, 3) == 0


def test_the_highest_rate_is_the_other_side_of_the_least_replicas() -> None:
    asked = question()
    rate = most_rate(asked, 5)
    assert 0 < rate < 5 * asked.most_rps
    assert least_replicas(asked, rate * 0.97).replicas <= 5 < least_replicas(asked, rate * 1.1).replicas


def test_corrections_of_a_calibration_are_in_the_answer() -> None:
    asked, rate = question(), 5 * question().most_rps
    slower = replace(asked, model=replace(asked.model, corrections={"p95_tpot_ms": 1.25}), _kept={})
    assert least_replicas(asked, rate).replicas < least_replicas(slower, rate).replicas


def test_spares_are_the_binomial_tail() -> None:
    failures = FailureModel(mttf_s=500 * 3600, repair_s=2 * 3600, target=0.999)
    up = 500 / 502
    by_hand = sum(math.comb(22, k) * up**k * (1 - up) ** (22 - k) for k in range(20, 23))
    assert failures.share_enough(22, 20) == pytest.approx(by_hand, abs=1e-12)
    room = failures.headroom(20)
    assert failures.share_enough(room.replicas - 1, 20) < 0.999 <= room.share_enough
    assert failures.share_enough(10_100, 10_000) == pytest.approx(1, abs=1e-6), "large fleets don't underflow"
    assert FailureModel(1e9, 0).headroom(7).spare == 0


def test_zones_bear_the_loss_of_one() -> None:
    for zones in (2, 3, 5):
        room = FailureModel(1e12, 1, zones).headroom(12)
        assert room.replicas - math.ceil(room.replicas / zones) >= 12
        assert room.replicas - 1 - math.ceil((room.replicas - 1) / zones) < 12


def test_the_time_until_too_few_solves_the_chain() -> None:
    failures = FailureModel(100, 10)
    replicas, down = 6, 3
    rates = np.zeros((down, down))
    for i in range(down):
        fails, back = (replicas - i) / 100, i / 10
        rates[i, i] = -(fails + back)
        if i + 1 < down:
            rates[i, i + 1] = fails
        if i:
            rates[i, i - 1] = back
    expected = np.linalg.solve(rates, -np.ones(down))[0]
    assert failures.time_to_down_s(replicas, down) == pytest.approx(expected)
    assert failures.time_to_down_s(3, 4) == math.inf


def test_a_plan_takes_the_cheapest_that_keeps_the_promise_and_names_the_others() -> None:
    terms = Terms(SLO, cold_start_s=60, mttf_s=500 * 3600, repair_s=3600, degraded=2, effort=EFFORT)
    choices = [
        choice("dear", 4.0),
        choice("cheap", 1.0),
        choice("slow", 0.01, steps=((1, 0.03), (16, 0.06))),
    ]
    plan = make_plan(choices, DAY, terms, "EUR")
    data = json.loads(json.dumps(plan.to_json()))
    assert plan.hardware == "cheap"
    by_name = {cost["hardware"]: cost for cost in data["costs"]}
    assert by_name["dear"]["per_day"] == pytest.approx(4 * by_name["cheap"]["per_day"])
    assert by_name["cheap"]["gpus"] == 2 * plan.most_provisioned
    assert "promised" in by_name["slow"]["why_not"]
    assert by_name["slow"]["per_day"] is None
    tokens = plan.traffic.requests_a_day * (plan.mix.mean_prompt + plan.mix.mean_output)
    assert by_name["cheap"]["per_million_tokens"] == pytest.approx(by_name["cheap"]["per_day"] / tokens * 1e6)

    assert len(plan.intervals) == 12
    ascending = sorted(plan.intervals, key=lambda interval: interval.rate_rps)
    assert all(a.needed <= b.needed for a, b in pairwise(ascending))
    assert all(interval.provisioned >= interval.needed for interval in plan.intervals)

    assert plan.headroom is not None
    assert plan.degraded[0].holds
    assert plan.degraded[0].shed_share == 0
    assert not plan.degraded[-1].holds
    assert 0 < plan.degraded[-1].shed_share < 1
    sheds = [row.shed_share for row in plan.degraded]
    assert sheds == sorted(sheds)

    assert [rehearsal.name for rehearsal in plan.rehearsals] == ["static", "hpa", "scheduled"]
    assert plan.rehearsals[0].holds
    assert plan.rehearsals[0].to_rps > plan.rehearsals[0].from_rps
    static, hpa, scheduled = plan.days
    assert static.missed_share <= 0.001
    assert scheduled.missed_share <= hpa.missed_share + 0.001
    assert max(hpa.replica_hours, scheduled.replica_hours) < static.replica_hours


def test_without_a_choice_that_can_the_reasons_are_the_error() -> None:
    with pytest.raises(UserError, match=r"no choice keeps the promise.*slow"):
        make_plan([choice("slow", steps=((1, 0.03),))], DAY, Terms(SLO, effort=EFFORT))
    with pytest.raises(UserError, match="expected a promise"):
        make_plan([choice("quick")], DAY, Terms(Slo()))


def test_manifests_are_what_the_schemas_say() -> None:
    plan = make_plan([choice("quick")], DAY, Terms(SLO, cold_start_s=60, effort=EFFORT))
    files = plan.policy.manifests(Workplace("llm", "prod", metrics="vllm"), "A plan.")
    hpa = yaml.safe_load(files["hpa.yaml"])
    Hpa.model_validate(hpa)
    assert hpa["apiVersion"] == "autoscaling/v2"
    assert hpa["spec"]["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llm"}
    assert hpa["spec"]["minReplicas"] == min(i.provisioned for i in plan.intervals)
    assert hpa["spec"]["maxReplicas"] == plan.most_provisioned
    metric = hpa["spec"]["metrics"][0]["pods"]
    adapter = yaml.safe_load(files["prometheus-adapter.yaml"])
    assert metric["metric"]["name"] == adapter["rules"][0]["name"]["as"]
    assert "vllm:num_requests_waiting" in adapter["rules"][0]["metricsQuery"]
    assert hpa["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] >= 300

    keda = yaml.safe_load(files["keda.yaml"])
    ScaledObject.model_validate(keda)
    triggers = keda["spec"]["triggers"]
    assert triggers[0]["type"] == "prometheus"
    assert all(isinstance(value, str) for trigger in triggers for value in trigger["metadata"].values())
    crons = [trigger["metadata"] for trigger in triggers if trigger["type"] == "cron"]
    covered = [0] * 24
    for cron in crons:
        minute, hour = map(int, cron["start"].split()[:2])
        first = (hour + (minute > 0)) % 24
        last = int(cron["end"].split()[1])
        for at in range(first, last if last > first else last + 24):
            covered[at % 24] = max(covered[at % 24], int(cron["desiredReplicas"]))
    least = hpa["spec"]["minReplicas"]
    by_hour = [interval.provisioned for interval in plan.intervals for _ in range(2)]
    assert [max(count, least) for count in covered] == by_hour


def test_without_a_clock_nothing_is_scheduled_by_the_hour_and_the_plan_says_so() -> None:
    plan = make_plan([choice("quick")], replace(DAY, clock_known=False), Terms(SLO, cold_start_s=60, effort=EFFORT))
    text = plan.policy.manifests(Workplace(), "A plan.")["keda.yaml"]
    assert [trigger["type"] for trigger in yaml.safe_load(text)["spec"]["triggers"]] == ["prometheus"]
    assert "without a schedule" in text
    known = replace(plan.policy, clock_known=True).manifests(Workplace(), "A plan.")["keda.yaml"]
    assert "cron" in known and "without a schedule" not in known
    assert any("time of day" in said for said in plan.assumptions)
    assert [interval.start_s for interval in plan.intervals] == [7200.0 * place for place in range(12)]
    assert plan.to_json()["traffic"]["clock_known"] is False


def test_manifests_refuse_what_a_cluster_would() -> None:
    with pytest.raises(ValidationError, match="no length"):
        CronMetadata(timezone="Etc/UTC", start="0 5 * * *", end="0 5 * * *", desired_replicas="3")
    with pytest.raises(UserError, match="Kubernetes names"):
        Workplace.checked("My_App", "default", "http://p", "engine")
    assert [quantity(value) for value in (12.0, 12.5, 0.05)] == ["12", "12500m", "50m"]


def test_a_curve_file_may_be_bare_and_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "curve.json"
    path.write_text(json.dumps(CURVE.to_json()))
    found = read_replica(path, chunk_tokens=512)
    assert (found.replica.curve, found.replica.chunk_tokens) == (CURVE, 512)
    for text, message in (
        ("{", "as JSON"),
        ("[]", "found something else"),
        (json.dumps({"name": "x"}), "found something else"),
        (json.dumps({**CURVE.to_json(), "steps": [[4, 0.1], [2, 0.1]]}), "ascending"),
        (json.dumps({**CURVE.to_json(), "steps": [[1, 0.0]]}), "takes none"),
        (json.dumps({**CURVE.to_json(), "seats": 0}), "at least one seat"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            read_replica(path)


def test_a_price_list_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    for text, message in (
        ("currency: USD\n", "hardware"),
        ("currency: USD\nhardware: [{name: a, price: 1}]\n", "hardware.0.price"),
        ("currency: USD\nhardware: [{name: a, price_per_hour: -1}]\n", "greater than or equal to 0"),
        ("currency: USD\nhardware: [{name: a, price_per_hour: 1}, {name: a, price_per_hour: 2}]\n", "each name once"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            read_prices(path)
    path.write_text("currency: USD\nhardware: [{name: a, price_per_hour: 1, curve: c.json, gpus_per_replica: 2}]\n")
    (hardware,) = read_prices(path).hardware
    assert hardware.curve == tmp_path / "c.json"
    assert hardware.replica_per_hour == 2
