"""The load generator against a real server whose every delay and defect is known."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.tools.scripted_server import Exchange, Script, serve
from tools.measure import RequestRecord, Workload, WorkloadSpec, materialise
from tools.measure.client import drive, warm_up
from tools.measure.dialect import EXTRAS, Dialect
from tools.measure.load import LoadResult
from tools.targets.target import Endpoint

PLAIN = frozenset[str]()


def workload(requests: int = 4, arrivals: object = None, tokens: int = 5, timeout_s: float = 10.0) -> Workload:
    return materialise(
        WorkloadSpec.model_validate(
            {
                "class": "chat",
                "requests": requests,
                "system_prompt_tokens": 16,
                "prompt_tokens": {"min": 10, "max": 20},
                "output_tokens": tokens,
                "arrivals": arrivals or {"kind": "burst"},
                "timeout_s": timeout_s,
            }
        )
    )


def one_exchange(script: Script, timeout_s: float = 10.0) -> tuple[RequestRecord, Exchange]:
    """What the client saw of one request, and the server's own truth about it."""
    with serve(script) as server:
        (record,) = drive(server.endpoint, workload(1, timeout_s=timeout_s)).records
        return record, server.loads[-1]


def one_record(script: Script, timeout_s: float = 10.0) -> RequestRecord:
    return one_exchange(script, timeout_s)[0]


def assert_accounted(load: LoadResult, offered: int) -> None:
    assert [record.index for record in load.records] == list(range(offered))
    assert all(record.outcome in ("ok", "failed", "timed_out") for record in load.records)
    assert all(record.end_s <= load.window_s for record in load.records)


def test_an_honest_answer_is_recorded_whole() -> None:
    record = one_record(Script(prefill_s=0.02, step_s=0.005))
    assert (record.outcome, record.error, record.http_status, record.finish_reason) == ("ok", "", 200, "length")
    assert record.output_tokens == 5 == len(record.token_times_s) == sum(record.token_counts)
    assert record.token_ids == (0, 1, 2, 3, 4)
    assert record.token_source == "usage"
    assert record.cached_tokens == 0
    assert record.prompt_tokens is not None and record.prompt_tokens >= 24
    assert list(record.token_times_s) == sorted(record.token_times_s)
    assert record.first_chunk_s is not None
    assert record.scheduled_s <= record.sent_s <= record.first_chunk_s < record.token_times_s[0]
    assert record.token_times_s[-1] <= record.end_s


def test_the_client_agrees_with_the_servers_clock() -> None:
    with serve(Script(prefill_s=0.1, step_s=0.01)) as server:
        load = drive(server.endpoint, workload(3, {"kind": "closed", "concurrency": 1}, tokens=8))
        truth = server.loads
    assert_accounted(load, 3)
    for record, exchange in zip(load.records, truth, strict=True):
        decode_s = record.token_times_s[-1] - record.token_times_s[0]
        assert exchange.ttft_s <= record.token_times_s[0] - record.sent_s < 3 * exchange.ttft_s
        assert exchange.decode_s / 3 < decode_s < 3 * exchange.decode_s


def test_a_role_only_chunk_does_not_stop_the_clock() -> None:
    record, exchange = one_exchange(Script(prefill_s=0.1))
    assert record.first_chunk_s is not None and record.first_chunk_s < record.token_times_s[0]
    assert record.token_times_s[0] - record.sent_s >= exchange.ttft_s


@pytest.mark.parametrize("understands", [PLAIN, frozenset({"continuous_usage_stats"}), frozenset({"return_token_ids"})])
def test_a_blank_flushed_before_prefill_earns_no_ttft(understands: frozenset[str]) -> None:
    record, exchange = one_exchange(Script(fault="early_blank", prefill_s=0.1, understands=understands))
    if record.outcome == "ok":
        assert record.token_times_s[0] - record.sent_s >= exchange.ttft_s
    else:
        assert record.error.split(":")[0] in ("early_chunk", "token_count_mismatch")


def test_an_early_blank_earns_nothing_even_if_the_server_counts_it() -> None:
    record, exchange = one_exchange(Script(fault="early_blank_counted", tokens=4, prefill_s=0.1, understands=PLAIN))
    assert (record.outcome, record.token_counts) == ("ok", (2, 1, 1, 1))
    assert record.token_times_s[0] - record.sent_s >= exchange.ttft_s


def test_an_early_blank_is_named_where_the_server_tells_token_ids() -> None:
    record = one_record(Script(fault="early_blank", prefill_s=0.05, understands=frozenset({"return_token_ids"})))
    assert record.outcome == "failed"
    assert record.error.startswith("early_chunk: ")


@pytest.mark.parametrize(
    ("understands", "counts"),
    [
        (frozenset({"return_token_ids"}), (3, 3, 1)),
        (frozenset({"continuous_usage_stats"}), (3, 3, 1)),
        (PLAIN, ()),
    ],
)
def test_batched_chunks_are_counted_in_tokens(understands: frozenset[str], counts: tuple[int, ...]) -> None:
    with serve(Script(tokens_per_chunk=3, step_s=0.01, understands=understands)) as server:
        (record,) = drive(server.endpoint, workload(1, tokens=7)).records
    assert record.outcome == "ok", record.error
    assert record.output_tokens == 7
    assert len(record.token_times_s) == 3
    assert record.token_counts == counts


def test_usage_in_the_last_chunk_alone_is_taken_as_a_total() -> None:
    record = one_record(Script(step_s=0.005, understands=PLAIN, usage_in_last_chunk=True))
    assert (record.outcome, record.output_tokens, len(record.token_times_s)) == ("ok", 5, 5)


@pytest.mark.parametrize(
    ("fault", "slug"),
    [
        ("503", "http_503"),
        ("error_as_200", "error_payload"),
        ("error_in_stream", "error_payload"),
        ("html", "not_event_stream"),
        ("never_a_choice", "empty_choices"),
        ("no_finish_reason", "no_finish_reason"),
        ("no_usage", "no_usage"),
        ("no_done", "no_done"),
        ("dropped", "dropped_stream"),
        ("truncated_utf8", "bad_stream"),
        ("usage_high", "token_count_mismatch"),
        ("usage_low", "token_count_mismatch"),
    ],
)
def test_a_broken_answer_fails_under_its_own_name(fault: str, slug: str) -> None:
    understands = PLAIN if fault == "no_usage" else Script.understands
    record = one_record(Script(fault=fault, understands=understands))
    assert record.outcome == "failed"
    assert record.error.split(": ")[0] == slug, record.error
    assert "\n" not in record.error


@pytest.mark.parametrize(("fault", "slug"), [("usage_high", "too_many_tokens"), ("usage_low", "token_count_mismatch")])
def test_usage_is_checked_without_any_extra_too(fault: str, slug: str) -> None:
    assert one_record(Script(understands=PLAIN, fault=fault)).error.startswith(f"{slug}: ")


def test_an_answer_without_tokens_fails() -> None:
    assert one_record(Script(tokens=0)).error.startswith("zero_tokens: ")


def test_nobody_there_is_an_outcome_too() -> None:
    with serve(Script()) as server:
        gone = server.endpoint
    load = drive(gone, workload(3))
    assert_accounted(load, 3)
    assert all(record.error.startswith("connect: ") for record in load.records)


@pytest.mark.parametrize("fault", ["hang_before_headers", "hang_after_role"])
def test_a_hanging_server_times_out_counted_from_when_it_was_due(fault: str) -> None:
    with serve(Script(fault=fault)) as server:
        arrivals = {"kind": "constant", "rate_rps": 20}
        load = drive(server.endpoint, workload(3, arrivals, timeout_s=0.3), dialect=Dialect())
    assert_accounted(load, 3)
    for record in load.records:
        assert record.outcome == "timed_out"
        assert record.end_s - record.scheduled_s >= 0.3 * 0.99
        assert record.error.startswith("timed_out: ")


def test_a_slow_drip_times_out_with_what_it_gave() -> None:
    with serve(Script(step_s=0.1)) as server:
        (record,) = drive(server.endpoint, workload(1, tokens=100, timeout_s=1.0), dialect=Dialect()).records
    assert record.outcome == "timed_out"
    assert 0 < len(record.token_times_s) < 100
    assert record.output_tokens == len(record.token_times_s)


def test_a_connection_held_open_after_done_ends_the_answer_at_done() -> None:
    record = one_record(Script(fault="open_after_done"), timeout_s=5.0)
    assert record.outcome == "ok"
    assert record.end_s < 5.0


def test_some_failures_leave_the_others_measured() -> None:
    def every_third(body: dict[str, object]) -> Script:
        words = str(body["messages"]).split()
        return Script(fault="503") if len(words) % 3 == 0 else Script()

    with serve(every_third) as server:
        load = drive(server.endpoint, workload(30))
    assert_accounted(load, 30)
    assert {record.outcome for record in load.records} == {"ok", "failed"}


def test_an_open_loop_sends_on_schedule_however_slow_the_server_is() -> None:
    with serve(Script(answers_when_in_flight=10)) as server:
        load = drive(server.endpoint, workload(10, {"kind": "constant", "rate_rps": 50}), dialect=Dialect())
    assert_accounted(load, 10)
    assert all(record.outcome == "ok" for record in load.records)
    assert all(record.sent_s >= record.scheduled_s for record in load.records)
    assert [record.scheduled_s for record in load.records] == [pytest.approx(n / 50) for n in range(10)]
    assert load.client.send_lag_p99_ms >= 0
    assert 0 <= load.client.cpu_share <= 1.1


def test_a_closed_loop_never_exceeds_its_concurrency() -> None:
    with serve(Script(prefill_s=0.02)) as server:
        load = drive(server.endpoint, workload(9, {"kind": "closed", "concurrency": 3}))
        intervals = [(exchange.received_s, exchange.ended_s or 0.0) for exchange in server.loads]
    assert_accounted(load, 9)
    for moment, _ in intervals:
        assert sum(start <= moment < end for start, end in intervals) <= 3
    records = sorted(load.records, key=lambda record: record.sent_s)
    assert all(later.scheduled_s >= earlier.scheduled_s for earlier, later in pairwise(records))


def test_many_at_once_share_no_pool_limit() -> None:
    with serve(Script(answers_when_in_flight=150)) as server:
        load = drive(server.endpoint, workload(150, tokens=1), dialect=Dialect())
    assert all(record.outcome == "ok" for record in load.records)


@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize("missing", [*EXTRAS])
def test_extras_that_a_server_refuses_are_dropped(missing: str, names: bool) -> None:
    understands = frozenset(EXTRAS) - {missing}
    with serve(Script(understands=understands, refuses=True, names_what_it_refuses=names)) as server:
        load = drive(server.endpoint, workload(2))
    assert missing not in load.extras
    if names:
        assert set(load.extras) == understands
    assert all(record.outcome == "ok" for record in load.records)


def test_a_server_that_takes_no_extra_is_measured_in_plain_api() -> None:
    with serve(Script(understands=PLAIN, refuses=True)) as server:
        load = drive(server.endpoint, workload(2))
        assert server.loads[0].body.keys() == {"model", "messages", "max_tokens", "stream", "stream_options"}
    assert load.extras == ()


def test_the_warm_up_shares_no_prompt_with_the_load() -> None:
    with serve(Script()) as server:
        dialect = warm_up(server.endpoint, workload(4))
        warmed = [str(exchange.body["messages"]) for exchange in server.loads]
        drive(server.endpoint, workload(4), dialect=dialect)
        measured = [str(exchange.body["messages"]) for exchange in server.loads[len(warmed) :]]
    assert len(warmed) == 2 and len(measured) == 4
    assert not set(warmed) & set(measured)


def test_progress_counts_every_request_and_ends_with_nothing_left() -> None:
    seen: list[tuple[int, int, float | None]] = []
    with serve(Script()) as server:
        drive(server.endpoint, workload(5), on_progress=lambda *told: seen.append(told))
    assert [(done, total) for done, total, _ in seen] == [(n, 5) for n in range(1, 6)]
    assert seen[-1][2] == 0


def test_an_api_key_is_sent_and_kept_out_of_the_records() -> None:
    with serve(Script(fault="503")) as server:
        endpoint = Endpoint(server.endpoint.base_url, "scripted", api_key="secret-key")
        load = drive(endpoint, workload(1))
    assert "secret-key" not in str(load)


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_closes_every_connection(tmp_path: Path) -> None:
    program = """
        import sys
        from tests.tools.test_measure_client import workload
        from tools.measure.client import drive
        from tools.measure.dialect import Dialect
        from tools.targets.target import Endpoint
        try:
            drive(Endpoint(sys.argv[1], "scripted"), workload(5, timeout_s=60), dialect=Dialect())
        except KeyboardInterrupt:
            sys.exit(130)
    """
    with serve(Script(fault="hang_after_role")) as server:
        command = [sys.executable, "-c", textwrap.dedent(program), server.endpoint.base_url]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            _wait_until(lambda: server.in_flight == 5)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=20)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 130, output.decode()
        assert b"Traceback" not in output
        _wait_until(lambda: server.in_flight == 0)


def _wait_until(true: object, within_s: float = 30.0) -> None:
    assert callable(true)
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)
