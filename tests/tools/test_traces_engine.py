"""A workload, sent to the real engine, logged by it, described: what comes out is what went in."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError

import pytest

from tests.tiny_model import build_tiny_model
from tools.measure.workload import WorkloadSpec, materialise
from tools.traces import read_log
from tools.traces.conversations import conversations_of
from tools.traces.sharing import infinite_hit_rate

WORKLOAD = materialise(
    WorkloadSpec.model_validate(
        {
            "requests": 12,
            "system_prompt_tokens": 60,
            "prompt_tokens": {"min": 12, "max": 30},
            "output_tokens": {"min": 4, "max": 12},
            "turns": {"min": 1, "max": 3},
            "arrivals": {"kind": "closed", "concurrency": 1},
            "warmup_requests": 0,
        }
    ),
    5,
)


def post(url: str, body: dict[str, object]) -> None:
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        answer.read()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("engine")
    model = build_tiny_model(folder / "tiny", max_position_embeddings=2048)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    path = folder / "requests.jsonl"
    flags = ["--port", str(port), "--num-threads", "1", "--dtype", "fp32", "--request-log", str(path)]
    server = subprocess.Popen(
        [sys.executable, "-m", "engine", "serve", str(model), "--served-model-name", "tiny", *flags],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{url}/health", timeout=5).close()
                break
            except (URLError, ConnectionError):
                assert server.poll() is None and time.monotonic() < deadline, "the engine didn't become ready"
                time.sleep(0.05)
        for request in WORKLOAD.requests:
            extras = {"max_tokens": request.max_tokens, "ignore_eos": True}
            post(url, {"model": "tiny", "messages": list(request.messages), **extras})
        server.terminate()
        assert server.wait(30) == 0
        yield path
    finally:
        server.kill()
        server.wait()


def test_the_engine_log_tells_what_was_sent(log: Path) -> None:
    found = read_log(log)
    assert found.format == "bundled-engine" and found.bad == 0
    assert [request.output_tokens for request in found.requests] == [r.max_tokens for r in WORKLOAD.requests]
    for logged, words in zip(found.requests, WORKLOAD.prompt_words, strict=True):
        assert logged.prompt_tokens >= words  # the tiny vocabulary cuts words up, and the template adds its own
        assert logged.duration_s is not None and logged.duration_s > 0
    hit_rate = infinite_hit_rate(found.requests)
    assert hit_rate is not None and hit_rate > 0.4


def test_turns_are_found_in_the_engine_log(log: Path) -> None:
    """The histories that are sent hold prose instead of the engine's answers, as long in words: where that is longer in
    tokens than the answer was, a turn has room for it and is linked."""
    sent = [request.conversation for request in WORKLOAD.requests]
    found = conversations_of(read_log(log).requests)
    assert sorted(len(c.requests) for c in found) == sorted(sent.count(number) for number in set(sent))
