"""`autotune bench` against a server that is already running, and against a deployment."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.autotune.conftest import ENVIRONMENT
from tools.measure import Measurement
from tools.targets import Endpoint
from tools.targets.bundled import BundledTarget


@pytest.fixture(scope="module")
def server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    target = BundledTarget(tiny_model)
    config = target.knobs.resolve({"dtype": "fp32", "kv_cache_tokens": 4096, "max_model_len": 512, "num_threads": 1})
    endpoint = target.launch(config, log=tmp_path_factory.mktemp("logs") / "server.log")
    yield endpoint
    target.stop(endpoint)


def bench(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autotune", "bench", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False, env=ENVIRONMENT)


def test_any_running_server_is_measured_without_naming_its_model(server: Endpoint, tmp_path: Path) -> None:
    flags = ("--requests", 12, "--concurrency", 3, "--input", 20, "--output", 6, "--shared-prefix", 10, "--json")
    done = bench(server.base_url + "/v1", *flags, "--out", "raw.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["completed"], found["failed"], found["errors"]) == (12, 0, [])
    assert found["p50_ttft_ms"] > 0 and found["p50_tpot_ms"] > 0 and "p99_ttft_ms" not in found
    assert found["intervals"]["p50_ttft_ms"][0] <= found["p50_ttft_ms"] <= found["intervals"]["p50_ttft_ms"][1]
    raw = Measurement.from_json(json.loads((tmp_path / "raw.json").read_text()))
    assert [record.output_tokens for record in raw.records] == [6] * 12
    assert raw.workload_digest == found["workload_digest"]


def test_the_workload_can_come_from_a_deployment(
    server: Endpoint, make_repo: Callable[..., Path], tmp_path: Path
) -> None:
    done = bench(server.base_url, "--workload", make_repo(), "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["completed"] == 24 and found["slo"] == {"p95_ttft_ms": 5000.0} and found["slo_attainment"] == 1.0


def test_a_deployment_is_launched_measured_and_stopped(make_repo: Callable[..., Path], tmp_path: Path) -> None:
    done = bench(make_repo(), "--seed", 5, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "24 of 24 requests answered" in done.stdout and "output_throughput" in done.stdout
