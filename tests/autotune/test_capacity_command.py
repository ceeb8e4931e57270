"""`autotune capacity`, as a user types it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from autotune.commands.capacity import capacity
from tools.errors import UserError
from tools.service import ServiceCurve

QUICK = ServiceCurve("quick", "", 16, 0.01, 2e-5, ((1, 0.01), (16, 0.02)), 300, 60)
SLOW = ServiceCurve("slow", "", 16, 0.4, 2e-3, ((1, 0.05), (16, 0.1)), 300, 60)

app = typer.Typer()
app.command()(capacity)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for curve in (QUICK, SLOW):
        (tmp_path / f"{curve.name}.json").write_text(json.dumps(curve.to_json()))
    rows = [f"{hour * 3600},{40 - 30 * math.cos(hour / 24 * 2 * math.pi):.2f}" for hour in range(24)]
    (tmp_path / "traffic.csv").write_text("time,rate_rps\n" + "\n".join(rows) + "\n")
    (tmp_path / "prices.yaml").write_text(
        "currency: EUR\nhardware:\n"
        "  - {name: quick, price_per_hour: 2, curve: quick.json}\n"
        "  - {name: slow, price_per_hour: 0.1}\n"
    )
    return tmp_path


def run(folder: Path, *options: str) -> str:
    """What it prints on stdout; a UserError comes through."""
    fixed = ["--traffic", str(folder / "traffic.csv"), "--slo", "ttft_ms.p95=100", "--interval", "4h"]
    result = CliRunner().invoke(app, [*fixed, "--requests", "2000", *options])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_one_json_object_with_the_whole_plan(folder: Path) -> None:
    options = ["--prices", str(folder / "prices.yaml"), "--curve", str(folder / "slow.json"), "--mttf", "30d"]
    plan = json.loads(run(folder, *options, "--json"))
    assert plan["kind"] == "capacity-plan"
    assert plan["hardware"] == "quick"
    assert len(plan["intervals"]) == 6
    assert plan["headroom"]["replicas"] == plan["provisioned_replicas"] > plan["peak_replicas"]
    assert [cost["why_not"] is None for cost in plan["costs"]] == [True, False]
    assert [day["name"] for day in plan["days"]] == ["static", "hpa", "scheduled"]
    assert plan == json.loads(run(folder, *options, "--json")), "the same seed, the same plan"


def test_tables_for_a_person_and_files_for_a_cluster(folder: Path) -> None:
    out = folder / "plan"
    printed = run(folder, "--curve", str(folder / "quick.json"), "--out", str(out), "--deployment", "chat")
    assert "replicas over the day" in printed
    assert "assumed: " in printed
    assert sorted(path.name for path in out.iterdir()) == [
        "hpa.yaml",
        "keda.yaml",
        "plan.html",
        "plan.json",
        "prometheus-adapter.yaml",
    ]
    plan = json.loads((out / "plan.json").read_text())
    hpa = yaml.safe_load((out / "hpa.yaml").read_text())
    assert hpa["metadata"]["name"] == "chat"
    assert hpa["spec"]["maxReplicas"] == plan["provisioned_replicas"]
    assert "<html" in (out / "plan.html").read_text()


def test_lengths_come_from_the_workload_that_is_named(folder: Path) -> None:
    (folder / "w.yaml").write_text(
        "workload: {requests: 50, prompt_tokens: 900, output_tokens: 200, arrivals: {kind: burst}}\n"
    )
    curve = ["--curve", str(folder / "quick.json"), "--json"]
    longer = json.loads(run(folder, *curve, "--workload", str(folder / "w.yaml")))
    assert longer["mix"]["mean_output_tokens"] == 200
    assert longer["peak_replicas"] > json.loads(run(folder, *curve))["peak_replicas"]


def test_a_workload_s_day_is_told_by_offsets(folder: Path) -> None:
    (folder / "w.yaml").write_text(
        "workload: {requests: 50, prompt_tokens: 300, output_tokens: 60,"
        " arrivals: {kind: renewal, rate_rps: 20, gaps: [0, 2],"
        " season: {period_s: 86400, weights: [1, 2, 4, 2]}}}\n"
    )
    out = folder / "plan"
    curve = ["--curve", str(folder / "quick.json"), "--out", str(out), "--repair", "0s"]
    printed = run(folder, *curve, "--traffic", str(folder / "w.yaml"))
    assert "offset" in printed and "+18:00" in printed and "(UTC)" not in printed
    assert "cron" not in (out / "keda.yaml").read_text()
    by_clock = run(folder, *curve)
    assert "from (UTC)" in by_clock and "+" not in by_clock.split("assumed")[0].split("Choices")[0]
    assert "cron" in (out / "keda.yaml").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "expected at least one service curve"),
        (["--curve", "{}/quick.json", "--curve", "{}/quick.json"], "different names"),
        (["--prices", "{}/prices.yaml"], "slow has no curve"),
        (["--curve", "{}/quick.json", "--slo", "ttft.p95=3"], "Expected ttft_ms"),
        (["--curve", "{}/quick.json", "--slo", "ttft_ms.p95=3"], "found ttft_ms.p95 twice"),
        (["--curve", "{}/quick.json", "--slo", "ttft_ms<3"], "expected a bound in ms"),
        (["--curve", "{}/quick.json", "--mttf", "long"], "--mttf: expected a duration"),
        (["--curve", "{}/quick.json", "--mttf", "0h"], "--mttf: expected a duration"),
        (["--curve", "{}/quick.json", "--interval", "0m"], "--interval: expected a duration"),
        (["--curve", "{}/quick.json", "--balancer", "random"], "--balancer: expected round-robin"),
        (["--curve", "{}/slow.json"], "no choice keeps the promise"),
    ],
)
def test_a_mistake_is_answered_with_what_to_do(folder: Path, options: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(folder, *(option.replace("{}", str(folder)) for option in options))
