"""The bundled target: a real engine with a tiny random model, launched, identified, counted and gone."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from engine.knobs import knob_table
from tests.tiny_model import build_tiny_model
from tools.canonical import digest
from tools.targets import Config, Endpoint, KnobError, LaunchFailed, Target
from tools.targets import hosted as hosted_module
from tools.targets.bundled import BundledTarget
from tools.targets.control import ControlError
from tools.targets.process import free_port, port_is_open

SMALL = {"num_threads": 1, "kv_cache_tokens": 2048, "max_num_batched_tokens": 128, "dtype": "fp32"}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> BundledTarget:
    return BundledTarget(build_tiny_model(tmp_path_factory.mktemp("model") / "tiny"))


@pytest.fixture(scope="module")
def config(target: BundledTarget) -> Config:
    return target.knobs.resolve(SMALL)


@pytest.fixture(scope="module")
def endpoint(target: BundledTarget, config: Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    endpoint = target.launch(config, log=tmp_path_factory.mktemp("logs") / "engine.log", timeout_s=120)
    yield endpoint
    target.stop(endpoint)
    assert not port_is_open(port_of(endpoint))


def port_of(endpoint: Endpoint) -> int:
    port = urlsplit(endpoint.base_url).port
    assert port is not None
    return port


def complete(endpoint: Endpoint, prompt: list[int], **extra: object) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(endpoint), timeout=60)
    body = {"model": endpoint.model, "prompt": prompt, "max_tokens": 4, "ignore_eos": True, **extra}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    status = connection.getresponse().status
    connection.close()
    return status


def test_it_is_a_target_whose_knobs_are_the_engines(target: BundledTarget) -> None:
    as_target: Target = target
    assert as_target.name == "bundled"
    assert target.knobs["max_num_seqs"].flag == "--max-num-seqs"
    assert not target.knobs["max_queue_len"].tunable
    assert target.knobs["num_threads"].auto == 0
    assert BundledTarget(target.model_dir, "cuda").knobs.resolve({}).values["device"] == "cuda"


def test_what_answers_is_what_was_asked_for_by_three_sources(
    target: BundledTarget, endpoint: Endpoint, config: Config
) -> None:
    identity = target.identify(endpoint)
    effective = dict(identity.config)
    assert effective["max_model_len"] == 512  # 0 stood for what the model was made for
    stood_for = {row.name: row.placeholder for row in knob_table() if row.placeholder is not None}
    asked = {
        name: stood_for[name] if config.values[name] == stood_for.get(name) else value
        for name, value in effective.items()
    }
    assert asked == dict(config.values)
    assert identity.config_digest == digest(effective)
    assert (identity.model, identity.pid) == ("tiny", endpoint.pid)
    assert 0 <= identity.started_at - identity.process_started_at < 60


def test_a_foreign_process_at_the_endpoint_is_noticed(target: BundledTarget, endpoint: Endpoint) -> None:
    with pytest.raises(ControlError, match="expected process"):
        target.identify(Endpoint(endpoint.base_url, endpoint.model, os.getpid()))
    with pytest.raises(ControlError):
        target.identify(Endpoint(f"http://127.0.0.1:{free_port()}", "tiny"))


def test_counters_count_what_was_sent_and_a_reset_empties_the_prefix_cache(
    target: BundledTarget, endpoint: Endpoint
) -> None:
    prompt = list(range(10, 74))
    before = target.counters(endpoint)
    assert [complete(endpoint, prompt) for _ in range(2)] == [200, 200]
    target.reset_cache(endpoint)
    assert complete(endpoint, prompt) == 200
    after = target.counters(endpoint)
    change = {name: after[name] - before[name] for name in after}
    assert change["requests"] == 3 and change["aborted"] == 0
    assert change["generation_tokens"] == 12
    assert change["prefix_queries_tokens"] == 192
    assert change["prefix_hit_tokens"] == 48  # once, in whole blocks of 16, short of the last token
    assert change["e2e_seconds_count"] == change["ttft_seconds_count"] == 3
    assert 0 < change["ttft_seconds_sum"] < change["e2e_seconds_sum"]


def test_a_server_that_dies_under_load_is_classified_with_its_last_words(
    target: BundledTarget, config: Config, tmp_path: Path
) -> None:
    endpoint = target.launch(config, log=tmp_path / "engine.log")
    try:
        os.kill(endpoint.pid, signal.SIGKILL)
        with pytest.raises(LaunchFailed, match=r"the server died: .*SIGKILL") as failure:
            eventually_fails(target, endpoint)
        assert failure.value.kind == "oom" and "engine: serving" in failure.value.log_tail
    finally:
        target.stop(endpoint)


def eventually_fails(target: BundledTarget, endpoint: Endpoint) -> None:
    """Until the supervisor has seen the death, the server is merely silent."""
    for _ in range(500):
        try:
            target.counters(endpoint)
        except ControlError:
            time.sleep(0.01)


def test_a_taken_port_is_tried_again_on_another(
    target: BundledTarget, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ports = [other.getsockname()[1], free_port()]
        monkeypatch.setattr(hosted_module, "free_port", lambda: ports.pop(0))
        endpoint = target.launch(config, log=tmp_path / "engine.log", timeout_s=120)
        target.stop(endpoint)
        target.stop(endpoint)  # a second stop does nothing
        assert ports == [] and not port_is_open(port_of(endpoint))


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"kv_cache_tokens": 256}, "bad_config", "kv-cache-tokens"),
        ({"max_num_batched_tokens": 16, "max_num_seqs": 64}, "bad_config", "max-num-seqs"),
        ({"kv_cache_tokens": 4_000_000}, "oom", "are free"),
    ],
)
def test_a_config_the_engine_refuses_is_a_classified_failure(
    target: BundledTarget, tmp_path: Path, change: dict[str, object], kind: str, words: str
) -> None:
    if kind == "oom":  # a model whose cache no machine holds
        target = BundledTarget(build_tiny_model(tmp_path / "wide", head_dim=16384, num_hidden_layers=1))
    config = target.knobs.resolve({**SMALL, **change})
    with pytest.raises(LaunchFailed, match=words) as failure:
        target.launch(config, log=tmp_path / "engine.log", timeout_s=120)
    assert failure.value.kind == kind
    assert "engine: error: " + kind in failure.value.log_tail


def test_a_missing_model_is_a_classified_failure(tmp_path: Path) -> None:
    target = BundledTarget(tmp_path / "nowhere")
    with pytest.raises(LaunchFailed) as failure:
        target.launch(target.knobs.resolve(SMALL), log=tmp_path / "engine.log")
    assert failure.value.kind == "model_missing"


def test_memory_grows_with_the_cache_and_refuses_what_cannot_be(target: BundledTarget) -> None:
    small, large = (target.memory(target.knobs.resolve({**SMALL, "kv_cache_tokens": n})) for n in (2048, 4096))
    bytes_per_token = 2 * 2 * 2 * 16 * 4  # keys and values, layers, KV heads, head size, fp32
    assert large.kv_cache_bytes - small.kv_cache_bytes == 2048 * bytes_per_token
    assert large.total_bytes > small.total_bytes > small.weights_bytes
    with pytest.raises(KnobError, match="max-num-batched-tokens"):
        target.memory(target.knobs.resolve({"max_num_batched_tokens": 16, "max_num_seqs": 64}))
