"""Failures are told apart by exit status and log, for every engine, whatever a log quotes."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.targets_failures import ENOUGH, LEAST, batches, recorded
from tools.targets.failure_signs import CAUSES, Cause, Phase
from tools.targets.failures import classify, diagnose
from tools.targets.process import ServerProcess
from tools.targets.target import LaunchFailed

ENGINES = ("vllm", "sglang", "llama.cpp", "bundled")
SERVED = "INFO:     Started server process [1]\nINFO:     Application startup complete.\n"


@dataclass(frozen=True, slots=True)
class Log:
    """What a server printed until it failed, where that stands, and what was wrong."""

    engine: str
    source: str
    exit_code: int | None
    cause: Cause
    phase: Phase
    text: str
    timed_out: bool = False


CORPUS: dict[str, list[dict[str, Any]]] = yaml.safe_load((Path(__file__).parent / "files/failures.yaml").read_text())
GENUINE, HOSTILE = (tuple(Log(**row) for row in CORPUS[name]) for name in ("genuine", "hostile"))


def named(log: Log) -> str:
    return f"{log.engine}-{log.source}-{log.cause}"


@pytest.mark.parametrize("log", GENUINE, ids=named)
def test_genuine_logs_are_sorted_right(log: Log) -> None:
    found = diagnose(log.exit_code, log.text, log.timed_out)
    assert (found.cause, found.phase) == (log.cause, log.phase), found.sentence
    assert found.kind == CAUSES[log.cause][0]
    assert classify(log.exit_code, log.text, log.timed_out) == (found.kind, found.sentence)


@pytest.mark.parametrize("number", batches())
def test_recorded_starts_are_sorted_right(number: int) -> None:
    """Whole logs of servers that were made to fail, with all that they print around it."""
    logs = recorded(number)
    wrong = {log.fault.id: log.now() for log in logs if log.now() not in log.fault.expect}
    assert len(logs) >= ENOUGH and len(wrong) <= (1 - LEAST) * len(logs), wrong


def test_the_corpus_holds_every_cause_and_engine() -> None:
    assert len(GENUINE) >= 40
    assert {log.cause for log in GENUINE} == set(CAUSES) - {"unreachable"}
    assert min(Counter(log.engine for log in GENUINE if log.engine in ENGINES).values()) >= 8


@pytest.mark.parametrize("log", HOSTILE, ids=named)
def test_what_a_log_quotes_is_not_taken_for_what_it_says(log: Log) -> None:
    found = diagnose(log.exit_code, log.text, log.timed_out)
    assert (found.cause, found.phase) == (log.cause, log.phase), found.sentence


@pytest.mark.parametrize("log", [log for log in GENUINE if log.engine != "bundled"], ids=named)
def test_a_sentence_says_what_to_do(log: Log) -> None:
    sentence = diagnose(log.exit_code, log.text, log.timed_out).sentence
    assert CAUSES[log.cause][1] in sentence and "\n" not in sentence


def test_a_setting_that_is_refused_is_named() -> None:
    refused = next(log for log in GENUINE if "CacheConfig" in log.text)
    sentence = diagnose(refused.exit_code, refused.text, timed_out=False).sentence
    assert "gpu_memory_utilization" in sentence and "less than or equal to 1" in sentence


@given(st.text(max_size=400), st.one_of(st.none(), st.integers(-64, 255)), st.booleans())
def test_any_log_is_sorted(text: str, exit_code: int | None, timed_out: bool) -> None:
    found = diagnose(exit_code, text, timed_out)
    assert found.cause in CAUSES and found.sentence


@given(st.text(max_size=200), st.sampled_from([0, 139, 143, -11]))
def test_no_text_of_a_request_makes_a_server_that_ended_otherwise_lack_memory(prompt: str, exit_code: int) -> None:
    asked = f"INFO 11-30 18:40:00 [logger.py:39] Received request cmpl-1: prompt: {prompt!r} out of memory'"
    assert diagnose(exit_code, SERVED + asked, timed_out=False).kind == "crash"


def test_a_cause_is_found_above_the_tracebacks_of_every_process_that_heard_of_it(tmp_path: Path) -> None:
    """vLLM tells it in the worker, then in the core, then in the API server: 40 lines at the end tell nothing."""
    heard = "".join(f'  File "core.py", line {line}, in heard_of_it\n' for line in range(150))
    said = f"RuntimeError: Cannot find any model weights with `/models/empty`\n{heard}RuntimeError: see above\n"
    words = [sys.executable, "-c", f"import sys; sys.stderr.write({said!r}); sys.exit(1)"]
    with ServerProcess(words, log=tmp_path / "log") as process, pytest.raises(LaunchFailed) as failed:
        process.wait_ready("http://127.0.0.1:1", timeout_s=30)
    assert failed.value.kind == "model_missing"
    assert "Cannot find any model weights" in failed.value.message
