"""`autotune bench` against a server that is already running, and against a deployment."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autotune.cli import app
from tests.autotune.conftest import ENVIRONMENT
from tools.errors import UserError
from tools.measure import Measurement, WorkloadSpec, materialise
from tools.measure.self_calibration import mock_server, true_times
from tools.measure.workload_file import write_workload
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


@pytest.fixture(scope="module")
def mock() -> Iterator[Endpoint]:
    with mock_server(ttft_ms=20, itl_ms=2) as endpoint:
        yield endpoint


QUICK = ("--requests", 20, "--rate", 50, "--input", 20, "--output", 6, "--json")


def test_the_client_measures_itself_first_and_its_files_can_be_read_again(mock: Endpoint, tmp_path: Path) -> None:
    files = ("--page", "page.html", "--out", "records.jsonl.gz")
    done = bench(mock.base_url, *QUICK, *files, "--slo", "ttft_ms.p50=5000", "--price", 2, cwd=tmp_path)
    assert done.returncode in (0, 3), done.stderr  # 3: a busy machine makes the client late, and it says so
    found = json.loads(done.stdout)
    assert found["floor"]["max_chunks_per_s"] > 0
    assert found["valid"] == (done.returncode == 0) == (not any(doubt["invalid"] for doubt in found["doubts"]))
    assert found["slo"] == {"p50_ttft_ms": 5000.0} and found["misses"] == []
    assert found["mtokens_per_currency"] == pytest.approx(found["total_token_throughput"] * 3600 / 1e6 / 2)
    assert [row["requests"] for row in found["slices"]["time"]] and sum(
        r["requests"] for r in found["slices"]["time"]
    ) == 20
    assert "<svg" in (tmp_path / "page.html").read_text()
    convert = [sys.executable, "-m", "autotune", "convert", "records.jsonl.gz", "--to", "vllm"]
    written = subprocess.run(convert, cwd=tmp_path, capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    theirs = json.loads(written.stdout)
    assert theirs["completed"] == 20
    assert theirs["median_ttft_ms"] == pytest.approx(found["median_ttft_from_send_ms"])


def test_trials_are_the_unit_and_differ_in_their_requests(mock: Endpoint, tmp_path: Path) -> None:
    done = bench(mock.base_url, *QUICK, "--trials", 3, "--no-floor", cwd=tmp_path)
    assert done.returncode in (0, 3), done.stderr
    found = json.loads(done.stdout)
    assert found["floor"] is None and len(found["trials"]) == 3
    assert len({trial["workload_digest"] for trial in found["trials"]}) == 3
    medians = [trial["median_e2el_ms"] for trial in found["trials"]]
    assert min(medians) <= found["median_e2el_ms"] <= max(medians)
    low, high = found["intervals"]["median_e2el_ms"]
    assert low <= found["median_e2el_ms"] <= high


def test_an_effect_is_resolved_or_it_is_said_that_the_budget_cannot(mock: Endpoint, tmp_path: Path) -> None:
    flags = (*QUICK, "--no-floor", "--metric", "median_e2el_ms")
    done = bench(mock.base_url, *flags, "--resolve", "80%", cwd=tmp_path)
    plan = json.loads(done.stdout)["resolve"]
    assert plan["feasible"] and plan["promised_half_width"] <= 0.8
    assert len(json.loads(done.stdout)["trials"]) >= plan["trials_per_side"] >= 5
    done = bench(mock.base_url, *flags, "--resolve", "0.001%", "--budget", "30s", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    assert not found["resolve"]["feasible"] and 3 <= len(found["trials"]) <= 6  # the pilot, and no more
    done = bench(mock.base_url, *flags, "--resolve", "5%", "--budget", "1s", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert "can't resolve anything" in json.loads(done.stdout)["ended_early"]  # said after one trial


def test_the_very_requests_can_be_given(mock: Endpoint, tmp_path: Path) -> None:
    spec = {"requests": 9, "prompt_tokens": 12, "output_tokens": 3, "turns": 3, "arrivals": {"kind": "burst"}}
    workload = materialise(WorkloadSpec.model_validate(spec), 5)
    write_workload(workload, tmp_path / "requests.jsonl")
    done = bench(mock.base_url, "--workload", "requests.jsonl", "--no-floor", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["workload_digest"] == workload.digest and found["seed"] == 5
    assert [row["turn"] for row in found["slices"]["turn"]] == ["0", "1", "2"]
    assert "p50_task_ms" in found
    done = bench(mock.base_url, "--workload", "requests.jsonl", "--seed", 6, "--no-floor", cwd=tmp_path)
    assert done.returncode == 1 and "expected the seed 5" in done.stderr


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--rate", 1, "--burst"), "expected one of --rate, --concurrency and --burst"),
        (("--burstiness", 2), "--burstiness goes with --rate"),
        (("--resolve", "5%", "--trials", 2), "expected one of --trials and --resolve"),
        (("--resolve", "many"), "expected a share such as 5%"),
        (("--budget", "5m"), "--budget goes with --resolve"),
        (("--metric", "p95_tft_ms"), "expected a metric such as p95_ttft_ms"),
        (("--workload", "nosuch.yaml"), "nosuch.yaml"),
        (("--slo", "ttft=5"), "expected a bound in ms"),
        (("--out", "no/such/folder/x.json"), "expected a folder to write to"),
        (("--price", 0), "expected a price per hour above 0"),
        (("--out", "x.csv"), "expected a name that ends in .jsonl.gz"),
        (("--out", "."), "expected the name of a file"),
        (("--workload", "chat-plus", "--input", 20), "expected lengths from one place"),
    ],
)
def test_wrong_usage_is_told_and_nothing_is_left(
    mock: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[object, ...], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=re.escape(says)):
        app(["bench", mock.base_url, *map(str, flags), "--requests", "2", "--no-floor"], standalone_mode=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_ctrl_c_drains_and_shows_what_was_measured(tmp_path: Path, workers: int) -> None:
    with mock_server(ttft_ms=300, itl_ms=100) as endpoint:
        flags = ["--rate", "10", "--requests", "5000", "--input", "16", "--output", "10", "--no-floor", "--json"]
        flags += ["--workers", str(workers), "--trials", "2"]
        command = [sys.executable, "-m", "autotune", "bench", endpoint.base_url, *flags]
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        try:
            deadline = time.monotonic() + 60
            while len(true_times(endpoint)) < 12 and time.monotonic() < deadline:
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 130, stderr
    found = json.loads(stdout)
    assert found["interrupted"] and 5 <= found["completed"] < 5000 and found["failed"] == 0
    assert "trials" not in found  # the second one wasn't begun


def test_arrivals_and_requests_of_a_workload_can_be_others(mock: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        "workload:\n  requests: 500\n  prompt_tokens: 12\n  output_tokens: 3\n"
        "  arrivals: {kind: poisson, rate_rps: 1}\nobjective: {metric: output_throughput}\n"
    )
    flags = ("--workload", "w.yaml", "--requests", 10, "--rate", 100, "--no-floor", "--json", "--out", "r.jsonl")
    done = bench(mock.base_url, *flags, "--trials", 2, cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["metric"] == "output_throughput" and found["completed"] == 10 and found["duration"] < 5
    assert sorted(path.name for path in tmp_path.glob("r*")) == ["r.1.jsonl", "r.2.jsonl"]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("localhost:8000", "for a server say http://localhost:8000"),
        ("ws://localhost:8000", "found the scheme 'ws'"),
        ("http://localhost:99999", "expected http(s)://HOST:PORT"),
        ("http://me:secret@localhost:8000", "a key goes into a variable"),
    ],
)
def test_a_target_that_is_none_is_told(target: str, says: str) -> None:
    with pytest.raises(UserError, match=re.escape(says)):
        app(["bench", target, "--model", "m", "--no-floor"], standalone_mode=False)
