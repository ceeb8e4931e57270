"""Readers on files that vLLM 0.32, guidellm 0.8.1, aiperf 0.13 and inference-perf 0.7 wrote of a real server.

The strongest check there is: where a definition is the same, our number from the requests equals the tool's own.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from tools.errors import UserError
from tools.formats import Reading, read

FILES = Path(__file__).parent / "files"


def close(ours: float, theirs: float) -> None:
    assert ours == pytest.approx(theirs, rel=1e-6)


def test_vllm_detailed_gives_requests_whose_numbers_are_vllms_own_from_the_send() -> None:
    reading = read(FILES / "vllm_detailed.json")
    assert (reading.tool, reading.model) == ("vllm", "smollm2-135m")
    ours, theirs = reading.ours(), reading.theirs
    assert theirs is not None and reading.measurement is not None
    for statistic in ("mean", "p50", "p90", "p95", "std"):
        close(ours[f"{statistic}_e2el_from_send_ms"], theirs.metrics[f"{statistic}_e2el_ms"])
    for name in (
        "completed",
        "failed",
        "duration",
        "request_throughput",
        "output_throughput",
        "total_token_throughput",
    ):
        close(ours[name], theirs.metrics[name])
    assert [len(record.token_times_s) for record in reading.measurement.records] == [8] * 6


def test_the_role_only_message_of_a_chat_server_is_no_token() -> None:
    reading = read(FILES / "vllm_detailed.json")
    assert reading.theirs is not None and reading.measurement is not None
    itls = json.loads((FILES / "vllm_detailed.json").read_text())["itls"]
    ttft_ms = reading.ours()["mean_ttft_from_send_ms"]
    close(ttft_ms, reading.theirs.metrics["mean_ttft_ms"] + 1000 * sum(gaps[0] for gaps in itls) / len(itls))
    assert reading.ours()["p50_itl_ms"] > 5 and min(gaps[0] for gaps in itls) < 1e-4
    for record in reading.measurement.records:
        assert record.first_chunk_s is not None and record.first_chunk_s < record.token_times_s[0]
    assert any("role" in note for note in reading.notes)


def test_a_completions_backend_has_no_role_only_message(tmp_path: Path) -> None:
    document = json.loads((FILES / "vllm_detailed.json").read_text())
    document["backend"] = "vllm"
    reading = read(_written(tmp_path / "v.json", document))
    assert reading.measurement is not None
    assert [len(record.token_times_s) for record in reading.measurement.records] == [9] * 6


def test_requests_that_failed_at_vllm_are_failed_here_and_queueing_in_the_client_counts() -> None:
    """Nine requests to a server that sends the role at once, the first token after 50 ms, one each 10 ms, some 503s."""
    reading = read(FILES / "vllm_failures.json")
    ours, theirs, measurement = reading.ours(), reading.theirs, reading.measurement
    assert theirs is not None and measurement is not None
    assert (measurement.completed, measurement.failed, measurement.offered) == (7, 2, 9)
    assert [record.error for record in measurement.records if record.error] == ["Service Unavailable"] * 2
    assert theirs.metrics["median_ttft_ms"] < 5 and 50 < ours["p50_ttft_from_send_ms"] < 60
    assert theirs.metrics["median_tpot_ms"] > 15 and 10 <= min(ours["p50_itl_ms"], ours["mean_itl_ms"]) < 11
    queues_s = json.loads((FILES / "vllm_failures.json").read_text())["queue_times"]
    answered = [queue for queue, error in zip(queues_s, _errors("vllm_failures.json"), strict=True) if not error]
    close(ours["mean_ttft_ms"], ours["mean_ttft_from_send_ms"] + 1000 * sum(answered) / len(answered))


def _errors(name: str) -> list[str]:
    errors: list[str] = json.loads((FILES / name).read_text())["errors"]
    return errors


def test_an_error_of_vllm_is_told_by_its_last_line(tmp_path: Path) -> None:
    document = json.loads((FILES / "vllm_failures.json").read_text())
    failed = document["errors"].index("Service Unavailable")
    document["errors"][failed] = "Traceback (most recent call last):\nConnectionError: refused\n"
    reading = read(_written(tmp_path / "v.json", document))
    assert reading.measurement is not None
    told = {record.error for record in reading.measurement.records if record.error}
    assert told == {"ConnectionError: refused", "Service Unavailable"}


def test_vllm_flat_gives_aggregates_with_their_definitions_and_no_measurement() -> None:
    reading = read(FILES / "vllm_flat.json")
    assert reading.measurement is None and reading.ours() == {} and reading.theirs is not None
    assert reading.theirs.metrics["mean_ttft_ms"] == pytest.approx(115.20506433347084)
    assert "role" in reading.theirs.notes["ttft"] and "save-detailed" in reading.notes[0]


def test_guidellm_gives_first_and_last_token_and_no_gap() -> None:
    reading = read(FILES / "guidellm.json")
    ours, theirs = reading.ours(), reading.theirs
    assert theirs is not None
    close(ours["mean_ttft_from_send_ms"], theirs.metrics["mean_ttft_ms"])
    close(ours["mean_tpot_ms"], theirs.metrics["mean_itl_ms"])  # equal lengths here, so their weights don't matter
    close(ours["duration"], theirs.metrics["duration"])
    assert (
        ours["mean_e2el_ms"] < theirs.metrics["mean_e2el_ms"] < 1.01 * ours["mean_e2el_ms"]
    )  # it ends with the stream
    for name in ("request_throughput", "output_throughput", "total_token_throughput"):
        close(ours[name], theirs.metrics[name])
    assert theirs.metrics["mean_tpot_ms"] > 2 * ours["mean_tpot_ms"]  # it has the first token's wait in it
    assert not [name for name in ours if "itl" in name or "chunk" in name]
    assert "first token" in theirs.notes["tpot"] and "mean gap" in theirs.notes["itl"]
    assert reading.measurement is not None and reading.measurement.records[0].cached_tokens == 16


def test_guidellms_due_moments_are_taken_only_on_the_clock_of_its_sends(tmp_path: Path) -> None:
    as_it_is = read(FILES / "guidellm.json")
    assert as_it_is.measurement is not None and math.isnan(as_it_is.measurement.client.send_lag_p99_ms)
    document = json.loads((FILES / "guidellm.json").read_text())
    for request in document["benchmarks"][0]["requests"]["successful"]:
        timings = request["info"]["timings"]
        timings["targeted_start"] = timings["request_start"] - 0.25
    mended = read(_written(tmp_path / "g.json", document))
    assert mended.measurement is not None and mended.measurement.client.send_lag_p99_ms == pytest.approx(250, abs=0.1)
    close(mended.ours()["mean_ttft_ms"], as_it_is.ours()["mean_ttft_ms"] + 250)


def test_guidellm_tells_when_requests_were_due_and_which_failed() -> None:
    reading = read(FILES / "guidellm_failures.json")
    ours, theirs, measurement = reading.ours(), reading.theirs, reading.measurement
    assert theirs is not None and measurement is not None
    assert (
        (measurement.completed, measurement.failed) == (theirs.metrics["completed"], theirs.metrics["failed"]) == (6, 3)
    )
    assert all("503" in record.error for record in measurement.records if record.outcome == "failed")
    assert ours["mean_ttft_ms"] > ours["mean_ttft_from_send_ms"]  # it was late itself
    close(ours["mean_ttft_from_send_ms"], theirs.metrics["mean_ttft_ms"])
    # Failed requests take part in our percentiles as longer than any.
    assert ours["p50_ttft_from_send_ms"] > theirs.metrics["p50_ttft_ms"] and "p90_ttft_ms" not in ours


def test_guidellm_cut_off_requests_are_left_out_and_said(tmp_path: Path) -> None:
    document = json.loads((FILES / "guidellm.json").read_text())
    requests = document["benchmarks"][0]["requests"]
    requests["incomplete"] = [requests["successful"].pop()]
    requests["errored"] = [{**requests["successful"].pop(), "info": {"error": "boom", "timings": {}}}]
    reading = read(_written(tmp_path / "g.json", document))
    assert reading.measurement is not None
    assert (reading.measurement.completed, reading.measurement.offered) == (4, 5)
    assert any("1 requests were cut off" in note for note in reading.notes)


def test_a_report_of_several_benchmarks_asks_which(tmp_path: Path) -> None:
    document = json.loads((FILES / "guidellm.json").read_text())
    document["benchmarks"] *= 2
    path = _written(tmp_path / "g.json", document)
    with pytest.raises(UserError, match=r"found 2 \(0: poisson, 1: poisson\); choose one with --part"):
        read(path)
    assert read(path, 1).tool == "guidellm"
    with pytest.raises(UserError, match="expected 0 to 1, found 7"):
        read(path, 7)
    with pytest.raises(UserError, match="expected a guidellm report"):
        read(FILES / "vllm_flat.json", 1)


@pytest.mark.parametrize("name", ["profile_export_aiperf.json", "profile_export.jsonl"])
def test_aiperf_gives_both_files_given_either(name: str) -> None:
    reading = read(FILES / name)
    ours, theirs = reading.ours(), reading.theirs
    assert theirs is not None and reading.measurement is not None
    assert (reading.tool, reading.version, reading.model) == ("aiperf", "0.13.0", "smollm2-135m")
    for statistic in ("mean", "p50", "p90", "p95", "std"):
        close(ours[f"{statistic}_ttft_from_send_ms"], theirs.metrics[f"{statistic}_ttft_ms"])
        close(ours[f"{statistic}_e2el_from_send_ms"], theirs.metrics[f"{statistic}_e2el_ms"])
        close(ours[f"{statistic}_tpot_ms"], theirs.metrics[f"{statistic}_tpot_ms"])
        close(ours[f"{statistic}_itl_ms"], theirs.metrics[f"{statistic}_itl_ms"])
    assert "our tpot" in theirs.notes["itl"]
    assert [(record.conversation, record.turn) for record in reading.measurement.records] == [(i, 0) for i in range(6)]
    assert reading.measurement.records[0].prompt_tokens == 54  # the server's count, not the client's 24
    assert 0 < reading.measurement.client.send_lag_p99_ms < 10
    assert "p99_ttft_ms" not in ours and "p99_ttft_ms" in theirs.metrics


def test_aiperf_failed_cancelled_and_lonely(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (FILES / "profile_export.jsonl").read_text().splitlines()]
    lines[0] |= {"error": {"code": 503, "type": "HTTPError", "message": "full"}, "metrics": {}}
    lines[1]["metadata"]["was_cancelled"] = True
    lines[2]["metadata"]["benchmark_phase"] = "warmup"
    path = tmp_path / "profile_export.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    reading = read(path)
    assert reading.theirs is None and reading.measurement is not None
    assert (reading.measurement.completed, reading.measurement.failed, reading.measurement.offered) == (3, 1, 4)
    failed = reading.measurement.records[0]
    assert (failed.http_status, failed.error) == (503, "HTTPError: full")
    assert any("1 requests were cancelled" in note for note in reading.notes)
    shutil.copy(FILES / "profile_export_aiperf.json", tmp_path / "alone_aiperf.json")
    lonely = read(tmp_path / "alone_aiperf.json")
    assert lonely.measurement is None and "alone.jsonl" in lonely.notes[0]


@pytest.mark.parametrize("name", ["summary_lifecycle_metrics.json", "per_request_lifecycle_metrics.json"])
def test_inference_perf_gives_both_files_given_either(name: str) -> None:
    reading = read(FILES / name)
    ours, theirs = reading.ours(), reading.theirs
    assert theirs is not None and reading.measurement is not None and reading.tool == "inference-perf"
    for statistic in ("mean", "p50", "p90", "p95"):
        close(ours[f"{statistic}_ttft_from_send_ms"], theirs.metrics[f"{statistic}_ttft_ms"])
        close(ours[f"{statistic}_itl_ms"], theirs.metrics[f"{statistic}_itl_ms"])
    for metric in ("duration", "request_throughput", "output_throughput"):
        close(ours[metric], theirs.metrics[metric])
    # Theirs ends with the stream and divides by the client's own count of tokens.
    assert ours["mean_e2el_ms"] < theirs.metrics["mean_e2el_ms"] < 1.02 * ours["mean_e2el_ms"]
    assert theirs.metrics["mean_tpot_ms"] != pytest.approx(ours["mean_tpot_ms"], rel=1e-3)
    assert [record.output_tokens for record in reading.measurement.records] == [8] * 6
    assert math.isnan(reading.measurement.client.send_lag_p99_ms) and "due" in reading.notes[0]


def test_tokens_that_came_in_one_chunk_have_no_gap_between_them(tmp_path: Path) -> None:
    """inference-perf repeats a chunk's stamp for each of its tokens, by its own tokenizer."""
    requests = json.loads((FILES / "per_request_lifecycle_metrics.json").read_text())
    response = requests[0]["info"]["response_metrics"]
    stamps = response["output_token_times"]
    response["output_token_times"] = sorted([*stamps, stamps[3], stamps[3]])
    reading = read(_written(tmp_path / "per_request_lifecycle_metrics.json", requests))
    assert reading.measurement is not None
    times_s = reading.measurement.records[0].token_times_s
    assert len(times_s) == 8 and len(set(times_s)) == 8


def test_inference_perf_failed_and_not_streamed(tmp_path: Path) -> None:
    requests = json.loads((FILES / "per_request_lifecycle_metrics.json").read_text())
    requests[0]["error"] = {"error_type": "HTTP Error 500", "error_msg": "boom"}
    requests[0]["info"]["response_metrics"] = None
    for name in ("chunk_times", "output_token_times", "server_usage"):
        del requests[1]["info"]["response_metrics"][name]
    reading = read(_written(tmp_path / "per_request_lifecycle_metrics.json", requests))
    assert reading.measurement is not None and reading.theirs is None
    failed, plain = reading.measurement.records[:2]
    assert (failed.outcome, failed.error) == ("failed", "HTTP Error 500: boom")
    assert (plain.outcome, plain.token_times_s, plain.token_source) == ("ok", (), "chunks")
    assert any("without the times" in note for note in reading.notes)
    assert not [name for name in reading.ours() if "ttft" in name or "e2el" in name or "itl" in name]
    assert any("the client's" in note for note in reading.notes)


def test_what_is_none_of_them_is_refused_with_all_that_was_tried(tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        read(_written(tmp_path / "x.json", {"hello": 1}))
    for name in ("guidellm", "vllm", "aiperf", "inference-perf", "autotune", "an object with hello"):
        assert name in str(refused.value)
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(UserError, match="a first line that is an object with a"):
        read(tmp_path / "x.jsonl")
    with pytest.raises(UserError, match="no such file"):
        read(tmp_path / "none.json")
    (tmp_path / "two.json").write_text('{"a": 1}\n{"a": 2}\n')
    with pytest.raises(UserError, match="one JSON value"):
        read(tmp_path / "two.json")


@pytest.mark.parametrize(
    ("name", "spoil", "told"),
    [
        ("vllm_detailed.json", lambda d: d["ttfts"].pop(), "one entry per request"),
        ("vllm_detailed.json", lambda d: d.pop("itls"), "itls: Field required"),
        ("vllm_flat.json", lambda d: d.update(duration="long"), "duration: Input should be a valid number"),
        ("guidellm.json", lambda d: d["benchmarks"][0]["requests"].pop("successful"), "requests.successful"),
        ("summary_lifecycle_metrics.json", lambda d: d["successes"].pop("latency"), "successes.latency"),
    ],
)
def test_a_file_that_was_cut_names_the_missing_part(tmp_path: Path, name: str, spoil: Any, told: str) -> None:
    document = json.loads((FILES / name).read_text())
    spoil(document)
    with pytest.raises(UserError, match=told):
        read(_written(tmp_path / name, document))


def _written(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


def test_a_reading_as_json_keeps_the_two_kinds_of_numbers_apart() -> None:
    reading: Reading = read(FILES / "guidellm.json")
    shown = reading.to_json()
    assert shown["ours"]["mean_tpot_ms"] != shown["theirs"]["mean_tpot_ms"]
    assert shown["definitions"]["tpot"] and "itl" in shown["lacks"]
    json.dumps(shown, allow_nan=False)
