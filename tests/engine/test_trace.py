"""The step trace: what Perfetto needs of it, a bounded size, and no cost when off."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.trace import Tracer

STATES = ("queued", "prefill", "decode", "preempted")


def read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def check(document: dict[str, Any]) -> None:
    """The rules of the trace event format, for the events that we write."""
    last = 0.0
    state: dict[str, str | None] = defaultdict(lambda: None)
    for event in document["traceEvents"]:
        assert {"name", "ph", "pid", "tid"} <= set(event)
        if event["ph"] == "M":
            assert event["args"]["name"]
            continue
        assert event["ts"] >= last, "events go back in time"
        last = event["ts"]
        if event["ph"] == "X":
            assert event["dur"] >= 0
        elif event["ph"] == "b":
            assert state[event["id"]] is None, "a state begins before the one before has ended"
            state[event["id"]] = event["name"]
        else:
            assert event["ph"] == "e"
            assert state[event["id"]] == event["name"], "an end without its beginning"
            state[event["id"]] = None
    assert not any(state.values()), "a beginning without its end"


def test_steps_phases_and_requests_are_told(tmp_path: Path) -> None:
    tracer = Tracer()
    tracer.start()
    start_s = time.monotonic()
    tracer.request("r1", "queued", start_s)
    with tracer.phase("schedule"), tracer.phase("prepare"):
        pass
    tracer.request("r1", "prefill", start_s + 0.001)
    tracer.step(start_s + 0.001, start_s + 0.004, prefill_tokens=48, decode_tokens=0, sequences=1)
    tracer.request("r1", "decode", start_s + 0.004)
    tracer.request("r1", None, start_s + 0.009)
    document = read(tracer.stop(tmp_path / "trace.json"))
    check(document)
    events = document["traceEvents"]
    step = next(event for event in events if event["name"] == "step")
    assert step["args"] == {"prefill_tokens": 48, "decode_tokens": 0, "sequences": 1}
    assert (step["ts"], step["dur"]) == pytest.approx((1000, 3000))
    spans = [(event["name"], event["ts"]) for event in events if event["ph"] == "b"]
    assert spans == [("queued", 0), ("prefill", pytest.approx(1000)), ("decode", pytest.approx(4000))]
    outer, inner = (next(event for event in events if event["name"] == name) for name in ("schedule", "prepare"))
    assert outer["tid"] == inner["tid"] != step["tid"]
    assert outer["ts"] <= inner["ts"] <= inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 0.001
    assert {event["args"]["name"] for event in events if event["ph"] == "M"} >= {"engine", "steps (device)"}
    assert list(tmp_path.iterdir()) == [tmp_path / "trace.json"]


moves = st.tuples(st.integers(0, 4), st.sampled_from([*STATES, None, "step"]), st.floats(0, 2, allow_nan=False))


@given(moves=st.lists(moves, max_size=60), capacity=st.integers(1, 20))
def test_every_beginning_has_its_end_however_small_the_ring(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[int, str | None, float]], capacity: int
) -> None:
    tracer, now_s = Tracer(capacity), time.monotonic() - 200
    tracer.start()
    spans, state = 0, dict[int, str | None]()
    for request, move, passed_s in moves:
        now_s += passed_s
        if move == "step":
            tracer.step(now_s - passed_s, now_s)
            spans += 1
        else:
            spans += state.get(request) is not None
            tracer.request(f"r{request}", move, now_s)
            state[request] = move
    document = read(tracer.stop(tmp_path_factory.mktemp("trace") / "t.json"))
    check(document)
    kept = [event for event in document["traceEvents"] if event["ph"] in "Xb"]
    still_open = sum(value is not None for value in state.values())
    assert len(kept) == min(spans, capacity) + still_open
    assert document["otherData"]["dropped"] == max(0, spans - capacity)


def test_a_request_from_before_the_start_appears_at_its_next_change(tmp_path: Path) -> None:
    tracer = Tracer()
    tracer.request("r1", "queued", 1.0)
    tracer.start()
    tracer.request("r1", "decode", 2.0)
    tracer.request("r1", None, 3.0)
    tracer.request("unknown", None, 3.0)
    document = read(tracer.stop(tmp_path / "t.json"))
    check(document)
    assert [event["name"] for event in document["traceEvents"] if event["ph"] == "b"] == ["decode"]


def test_a_second_trace_begins_anew_and_replaces_the_file(tmp_path: Path) -> None:
    tracer = Tracer()
    for name in ("first", "second"):
        tracer.start()
        with tracer.phase(name):
            pass
        tracer.stop(tmp_path / "t.json")
        with tracer.phase("between"):
            pass
    names = [event["name"] for event in read(tmp_path / "t.json")["traceEvents"] if event["ph"] == "X"]
    assert names == ["second"]


def test_starting_again_forgets_what_was_kept(tmp_path: Path) -> None:
    tracer = Tracer()
    tracer.start()
    tracer.step(1.0, 2.0)
    tracer.request("old", "decode", 1.0)
    tracer.start()
    tracer.step(3.0, 4.0)
    events = read(tracer.stop(tmp_path / "t.json"))["traceEvents"]
    assert [event["name"] for event in events if event["ph"] != "M"] == ["step"]


def test_off_costs_next_to_nothing() -> None:
    tracer, rounds = Tracer(), 20_000
    started = time.perf_counter()
    for _ in range(rounds):
        with tracer.phase("schedule"):
            pass
        tracer.step(0.0, 1.0)
        tracer.request("r", "decode", 0.0)
    assert (time.perf_counter() - started) / rounds < 5e-6
