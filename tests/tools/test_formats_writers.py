"""Writers: vLLM's file has vLLM's keys and numbers; llm-d's report holds to its own schema."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from llmd_benchmark_report.core import load_benchmark_report

from tests.tools.any_measurement import measurements
from tools.formats import llmd_json, llmd_yaml, read, reading_from_measurement, vllm_json
from tools.measure import Measurement, Slo

FILES = Path(__file__).parent / "files"


def _measurement(name: str = "vllm_detailed.json") -> Measurement:
    measurement = read(FILES / name).measurement
    assert measurement is not None
    return measurement


def test_our_vllm_file_has_the_keys_and_types_of_vllms_own() -> None:
    theirs = json.loads((FILES / "vllm_detailed.json").read_text())
    ours = vllm_json(_measurement(), model="m", slo=Slo(ttft_ms={"p95": 500}), request_rate=4.0, burstiness=1.0)
    assert list(ours) == list(theirs)
    untold = {"date", "generated_texts"} | {name for name in theirs if name.startswith("p99_")}
    for name, value in ours.items():
        if name not in untold:
            assert type(value) is type(theirs[name]), name
    flat = vllm_json(_measurement(), model="m", detailed=False)
    assert list(flat) == list(json.loads((FILES / "vllm_flat.json").read_text()))


def test_vllms_numbers_come_back_from_vllms_requests() -> None:
    theirs = json.loads((FILES / "vllm_detailed.json").read_text())
    ours = vllm_json(_measurement(), model="m")
    same = ["duration", "completed", "failed", "total_input_tokens", "total_output_tokens", "request_throughput"]
    same += ["output_throughput", "total_token_throughput", "input_lens", "output_lens", "errors"]
    same += [f"{name}_e2el_ms" for name in ("mean", "median", "std", "p50", "p90", "p95")]
    for name in same:
        assert ours[name] == pytest.approx(theirs[name]) if name != "errors" else ours[name] == theirs[name], name
    assert ours["queue_times"] == pytest.approx(theirs["queue_times"], abs=1e-6)
    assert ours["max_concurrent_requests"] == theirs["max_concurrent_requests"]
    assert ours["p99_ttft_ms"] is None  # 6 requests don't tell a P99


def test_the_file_that_we_write_is_read_back_as_the_same_requests(tmp_path: Path) -> None:
    measurement = _measurement("profile_export.jsonl")
    failed = replace(measurement.records[3], outcome="failed", error="http_503", token_times_s=(), output_tokens=None)
    measurement = replace(measurement, records=(*measurement.records[:3], failed, *measurement.records[4:]))
    path = tmp_path / "vllm.json"
    path.write_text(json.dumps(vllm_json(measurement, model="m")))
    back = read(path).measurement
    assert back is not None and (back.completed, back.failed) == (5, 1)
    for ours, theirs in zip(measurement.records, back.records, strict=True):
        assert theirs.sent_s == pytest.approx(ours.sent_s, abs=1e-6)
        assert theirs.scheduled_s == pytest.approx(ours.scheduled_s, abs=1e-6)
        assert theirs.token_times_s == pytest.approx(ours.token_times_s, abs=1e-6)
        assert (theirs.outcome, theirs.error, theirs.output_tokens or None) == (
            ours.outcome,
            ours.error,
            ours.output_tokens,
        )


@pytest.mark.parametrize(
    "name",
    ["vllm_detailed.json", "vllm_flat.json", "guidellm.json", "profile_export.jsonl", "summary_lifecycle_metrics.json"],
)
def test_the_llmd_report_of_every_reading_holds_to_its_schema_as_json_and_as_yaml(name: str) -> None:
    reading = read(FILES / name)
    report = llmd_json(reading)
    assert load_benchmark_report(json.loads(json.dumps(report))).dump() == report
    assert yaml.safe_load(llmd_yaml(report)) == report
    numbers = reading.ours() or (reading.theirs.metrics if reading.theirs else {})
    ttft = report["results"]["request_performance"]["aggregate"]["latency"]["time_to_first_token"]
    assert ttft["units"] == "ms" and ttft["mean"] == numbers["mean_ttft_ms"]
    assert ("p99" in ttft) == ("p99_ttft_ms" in numbers)
    definitions = "autotune's" if reading.measurement else f"{reading.tool}'s"
    assert definitions in report["run"]["description"]


@given(measurement=measurements)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_every_measurement_can_be_written_as_both(measurement: Measurement) -> None:
    json.dumps(vllm_json(measurement, model="m"), allow_nan=False)
    report = llmd_json(reading_from_measurement(measurement))
    assert load_benchmark_report(json.loads(json.dumps(report, allow_nan=False))).dump() == report


def test_a_span_of_days_is_counted_without_a_list_of_its_seconds() -> None:
    measurement = _measurement()
    late = replace(measurement.records[-1], sent_s=1e9, token_times_s=(1e9 + 1, 1e9 + 2))
    spread = replace(measurement, records=(*measurement.records[:-1], late))
    assert vllm_json(spread, model="m")["max_concurrent_requests"] >= 1
