"""Several processes on one schedule, the mock that tells the truth, and the client measured against it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.scripted_server import Script, ScriptedServer, serve
from tests.tools.test_measure_client import workload
from tools.errors import UserError
from tools.measure import Workload, WorkloadSpec, materialise
from tools.measure.client import drive
from tools.measure.dialect import Dialect
from tools.measure.floor import Floor
from tools.measure.self_calibration import measure_floor, mock_server, true_times
from tools.measure.share import Share
from tools.targets.target import Endpoint


def talk(arrivals: object, requests: int = 24) -> Workload:
    spec = {
        "class": "chat-plus",
        "requests": requests,
        "system_prompt_tokens": 16,
        "prompt_tokens": 12,
        "output_tokens": 4,
        "turns": {"min": 1, "max": 4},
        "turn_gap_s": {"min_s": 0.01, "max_s": 0.05},
        "arrivals": arrivals,
    }
    return materialise(WorkloadSpec.model_validate(spec), 3)


@given(st.integers(1, 9), st.integers(1, 30), st.integers(1, 9))
def test_shares_are_the_whole_load_and_all_its_users(workers: int, requests: int, users: int) -> None:
    for arrivals in ({"kind": "poisson", "rate_rps": 9}, {"kind": "closed", "concurrency": users}):
        whole = Share.whole(talk(arrivals, requests))
        shares = whole.dealt(workers)
        assert 1 <= len(shares) <= workers
        dealt = sorted(request.index for share in shares for one in share.conversations for request in one)
        assert dealt == list(range(requests))
        if whole.concurrency is not None:
            parts = [share.concurrency or 0 for share in shares]
            assert sum(parts) == min(users, sum(parts)) and all(parts)
            assert sum(parts) == users or len(shares) == len(whole.conversations)


@pytest.mark.parametrize("arrivals", [{"kind": "poisson", "rate_rps": 60}, {"kind": "closed", "concurrency": 3}])
@pytest.mark.parametrize("workers", [1, 2])
def test_conversations_keep_their_order_and_their_pauses(arrivals: object, workers: int) -> None:
    load_of = talk(arrivals)
    seen: list[tuple[int, int]] = []
    with mock_server(ttft_ms=5, itl_ms=1) as endpoint:
        load = drive(
            endpoint,
            load_of,
            dialect=Dialect(),
            workers=workers,
            on_progress=lambda done, all_, _: seen.append((done, all_)),
        )
    assert [record.index for record in load.records] == list(range(24))
    assert {record.error for record in load.records} == {""}
    assert [(r.conversation, r.turn) for r in load.records] == [(r.conversation, r.turn) for r in load_of.requests]
    for before, after in pairwise(load.records):
        if after.turn:
            request = load_of.requests[after.index]
            assert after.scheduled_s == pytest.approx(before.end_s + request.gap_s)
            assert after.sent_s >= after.scheduled_s
    assert seen == [(done, 24) for done in range(1, 25)]
    assert load.client.workers == workers


def test_workers_send_at_the_same_moments_as_one(tmp_path: Path) -> None:
    load_of = workload(40, {"kind": "constant", "rate_rps": 100})
    with mock_server(ttft_ms=5, itl_ms=1) as endpoint:
        load = drive(endpoint, load_of, dialect=Dialect(), workers=3)
        truth = true_times(endpoint)
    assert [record.scheduled_s for record in load.records] == [request.scheduled_s for request in load_of.requests]
    assert len(truth) == 40
    assert all(len(sent) == 5 for _, sent in truth)
    received = sorted(at_s for at_s, _ in truth)
    assert received[-1] - received[0] == pytest.approx(0.39, abs=0.3)


def test_a_workers_death_is_told_and_the_others_are_ended() -> None:
    with serve(Script(fault="hang_after_role")) as server:
        program = f"""
            import os, signal, subprocess, threading, time
            from tests.tools.test_measure_client import workload
            from tools.measure.client import drive
            from tools.measure.dialect import Dialect
            from tools.targets.target import Endpoint
            from pathlib import Path

            def kill_one():
                children = []
                while len(children) < 2:
                    children = Path(f"/proc/{{os.getpid()}}/task/{{os.getpid()}}/children").read_text().split()
                    time.sleep(0.05)
                time.sleep(2)
                os.kill(int(children[0]), signal.SIGKILL)

            threading.Thread(target=kill_one, daemon=True).start()
            drive(Endpoint({server.endpoint.base_url!r}, "scripted"), workload(4), dialect=Dialect(), workers=2)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1
        assert "UserError: load worker" in done.stderr and "of 2" in done.stderr
        _wait_until_none_in_flight(server)


def test_workers_end_with_their_parent() -> None:
    with serve(Script(fault="hang_after_role")) as server:
        program = f"""
            from tests.tools.test_measure_client import workload
            from tools.measure.client import drive
            from tools.measure.dialect import Dialect
            from tools.targets.target import Endpoint
            there = Endpoint({server.endpoint.base_url!r}, "scripted")
            drive(there, workload(4, timeout_s=60), dialect=Dialect(), workers=2)
        """
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stderr=subprocess.DEVNULL)
        try:
            _wait(lambda: server.in_flight == 4)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        _wait_until_none_in_flight(server)


def test_the_floor_is_measured_and_goes_through_json() -> None:
    floor = measure_floor()
    assert floor.max_chunks_per_s > 0 and floor.workers == 1
    assert floor.send_lag_p99_ms >= 0 and floor.stamp_jitter_p99_ms >= 0
    assert Floor.from_json(json.loads(json.dumps(floor.to_json()))) == floor


def test_the_client_sees_what_the_mock_did() -> None:
    with mock_server(ttft_ms=40, itl_ms=8) as endpoint:
        load = drive(endpoint, workload(20, {"kind": "constant", "rate_rps": 40}, tokens=10), dialect=Dialect())
        truth = true_times(endpoint)
    for record, (received_s, sent_s) in zip(load.records, truth, strict=True):
        assert record.token_times_s[0] - record.sent_s >= sent_s[0] - received_s >= 0.039
        assert record.token_times_s[-1] - record.token_times_s[0] == pytest.approx(sent_s[-1] - sent_s[0], rel=0.5)


def test_a_mock_that_cannot_listen_says_so() -> None:
    with mock_server(ttft_ms=1, itl_ms=1) as endpoint, pytest.raises(UserError, match="didn't start"):
        port = endpoint.base_url.rpartition(":")[2]
        with mock_server("--port", port, ttft_ms=1, itl_ms=1):
            pass


def test_nobody_is_there_for_the_workers_either() -> None:
    load = drive(Endpoint("http://127.0.0.1:9", "none"), workload(6), dialect=Dialect(), workers=2)
    assert {record.error.split(":")[0] for record in load.records} == {"connect"}


def _wait_until_none_in_flight(server: ScriptedServer) -> None:
    _wait(lambda: server.in_flight == 0)


def _wait(true: Callable[[], bool], within_s: float = 30.0) -> None:
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)
