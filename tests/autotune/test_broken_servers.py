"""Twelve servers that are broken, each in its own way: named, never counted as a success, and nobody is held up."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from autotune.asked_load import AskedLoad
from autotune.bench import BenchTrial, ServedSubject
from autotune.endpoint import at_url
from tests.tools.scripted_server import Script, serve
from tools.errors import UserError
from tools.measure import Measurement, Slo, WorkloadSpec
from tools.measure.client import drive

PLAIN = frozenset[str]()
TIMEOUT_S = 1.5
SPEC = WorkloadSpec.model_validate(
    {
        "requests": 12,
        "prompt_tokens": 16,
        "output_tokens": 12,
        "arrivals": {"kind": "burst"},
        "timeout_s": TIMEOUT_S,
    }
)

BROKEN = {
    "early whitespace chunk": (Script(fault="early_blank", prefill_s=0.05, step_s=0.005), "early_chunk"),
    "batched chunks": (Script(fault="buffered", prefill_s=0.05, step_s=0.01), "buffered"),
    "wrong usage": (Script(fault="usage_high", step_s=0.001), "token_count_mismatch"),
    "error as 200": (Script(fault="error_as_200"), "error_payload"),
    "hang": (Script(fault="hang_before_headers"), "nothing came"),
    "slow loris": (Script(fault="slow_loris"), "not one whole event"),
    "dropped stream": (Script(fault="dropped", step_s=0.001), "dropped_stream"),
    "duplicate chunk": (Script(fault="duplicate_chunk", step_s=0.001), "duplicate_chunk"),
    "duplicate chunk of a server that tells little": (
        Script(fault="duplicate_chunk", step_s=0.001, understands=PLAIN),
        "duplicate_chunk",
    ),
    "no usage": (Script(fault="no_usage", step_s=0.001, understands=PLAIN), "no_usage"),
    "HTML": (Script(fault="html"), "not_event_stream"),
    "truncated UTF-8": (Script(fault="truncated_utf8", step_s=0.001), "bad_stream"),
    "clock skew": (Script(fault="clock_skew", step_s=0.001), "clock_skew"),
}


@pytest.mark.parametrize("broken", [*BROKEN])
def test_a_broken_server_is_named_and_counts_as_no_success(broken: str) -> None:
    script, name = BROKEN[broken]
    workload = AskedLoad(SPEC).workload()
    with serve(script) as server:
        started = time.monotonic()
        load = drive(server.endpoint, workload)
        assert time.monotonic() - started < 20 * TIMEOUT_S
    trial = BenchTrial(workload, Measurement.of(workload, load, config_digest=""), Slo(), None)
    told = [record.error for record in load.records] + [str(doubt) for doubt in trial.doubts if doubt.invalid]
    assert any(name in words for words in told), told
    assert not trial.valid
    assert len(load.records) == 12


@pytest.mark.parametrize("broken", ["HTML", "hang"])
def test_a_server_that_answers_nothing_is_an_error(broken: str, tmp_path: Path) -> None:
    script, name = BROKEN[broken]
    with serve(script) as server, pytest.raises(UserError, match=f"none of 12 requests was answered.*{name}"):
        subject = ServedSubject(at_url(server.endpoint.base_url, "scripted", None), tmp_path / "log")
        subject.measure(AskedLoad(SPEC).workload(), None)


def test_an_honest_server_is_not_doubted_for_any_of_these() -> None:
    workload = AskedLoad(SPEC).workload()
    with serve(Script(prefill_s=0.05, step_s=0.01)) as server:
        load = drive(server.endpoint, workload)
    trial = BenchTrial(workload, Measurement.of(workload, load, config_digest=""), Slo(), None)
    assert trial.measurement.completed == 12
    assert {doubt.name for doubt in trial.doubts if doubt.invalid} <= {"client_limited"}  # on a busy machine
