"""`autotune calibrate` as a user runs it: on a server's URL, on a deployment, and with what can't work."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from autotune.commands.calibrate import calibrate as calibrate_command
from tests.autotune.conftest import ENVIRONMENT
from tests.tools.queueing_server import SMALL, serve_replica
from tools.capacity.curve_file import read_replica
from tools.errors import UserError
from tools.measure import WorkloadSpec
from tools.measure.workload import materialise
from tools.measure.workload_file import write_workload
from tools.service import ServiceCalibration

WORKLOAD = """\
workload:
  class: chat
  requests: 16
  prompt_tokens: {min: 16, max: 80}
  output_tokens: {min: 4, max: 10}
  arrivals: {kind: poisson, rate_rps: 5}
slo: {ttft_ms: {p95: 5000}}
"""


def calibrate(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autotune", "calibrate", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False, env=ENVIRONMENT)


def expected_exit(found: dict[str, Any]) -> int:
    """3 where a doubt says that the numbers can't be used, as on a machine that does other things too."""
    return 3 if any(doubt["invalid"] for doubt in found["doubts"]) else 0


def test_a_url_is_calibrated_and_the_file_is_a_curve_for_capacity(tmp_path: Path) -> None:
    (tmp_path / "mix.yaml").write_text(WORKLOAD)
    flags = (
        "--workload",
        "mix.yaml",
        "--slo",
        "ttft_ms.p95=3000",
        "--requests",
        60,
        "--verify",
        0,
        "--no-floor",
        "--json",
    )
    with serve_replica(SMALL) as server:
        done = calibrate(
            server.endpoint.base_url + "/v1", *flags, "--out", "curve.json", "--page", "p.html", cwd=tmp_path
        )
    found = json.loads(done.stdout)
    assert done.returncode == expected_exit(found), done.stderr
    assert found == json.loads((tmp_path / "curve.json").read_text())
    assert found["slo"] == {"p95_ttft_ms": 3000.0} and found["model"] == "queueing"
    assert found["requests_sent"] <= 60 and not found["best_rate"]["verified"]
    assert read_replica(tmp_path / "curve.json").replica == ServiceCalibration.from_json(found).fit.replica
    assert "<svg" in (tmp_path / "p.html").read_text()
    assert "burst" in done.stderr


def test_a_deployment_is_launched_calibrated_and_stopped(make_repo: Callable[..., Path], tmp_path: Path) -> None:
    deployment = make_repo(lambda text: text.replace("max_num_seqs: 1 ", "max_num_seqs: 4 "))
    done = calibrate(deployment, "--requests", 48, "--verify", 0, "--out", "curve.json", cwd=tmp_path)
    found = ServiceCalibration.from_json(json.loads((tmp_path / "curve.json").read_text()))
    assert done.returncode == expected_exit(found.to_json()), done.stderr
    assert "client's floor" in done.stderr and "tiny-chat" in done.stdout
    assert "knee:" in done.stdout and "best rate under p95_ttft_ms <= 5000" in done.stdout
    assert 1 < found.curve.seats <= 4 and found.curve.step_s(1) > 0
    assert 0 < found.knee_rps <= found.capacity_rps and found.fit.tokens.output_share == 1.0
    assert all(point.summary["completed"] == point.requests for point in found.points)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--requests", "5"), "at least 48 requests"),
        (("--slo", "ttft=3"), "--slo: expected a bound"),
        (("--budget", "soon"), "expected a duration"),
        (("--workload", "HERE/none.yaml"), "none.yaml"),
        (("--workload", "HERE/very.jsonl"), "found the very requests"),
        (("--out", "HERE/no/such/folder.json"), "expected a folder to write to"),
    ],
)
def test_what_can_t_work_is_said_in_a_sentence(flags: tuple[str, ...], said: str, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(calibrate_command)
    spec = WorkloadSpec.model_validate(yaml.safe_load(WORKLOAD)["workload"])
    write_workload(materialise(spec), tmp_path / "very.jsonl")
    with serve_replica(SMALL) as server:
        flags = tuple(flag.replace("HERE", str(tmp_path)) for flag in flags)
        done = CliRunner().invoke(app, [server.endpoint.base_url, *flags])
    assert isinstance(done.exception, UserError) and said in str(done.exception)


@pytest.mark.parametrize("option", ["--model", "--key-env"])
def test_what_is_for_a_running_server_is_refused_with_a_deployment(
    option: str, make_repo: Callable[..., Path], tmp_path: Path
) -> None:
    app = typer.Typer()
    app.command()(calibrate_command)
    done = CliRunner().invoke(app, [str(make_repo()), option, "PATH", "--no-floor", "--out", str(tmp_path / "c.json")])
    assert isinstance(done.exception, UserError) and str(done.exception).startswith(f"{option}: expected it with")
    assert not (tmp_path / "c.json").exists()
