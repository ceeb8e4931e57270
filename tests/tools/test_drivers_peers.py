"""The drivers against the engines themselves, where the environment variable PEERS names the folder they stand in."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.tiny_model import build_tiny_model
from tests.tools.gguf_files import write_gguf
from tools.models import cache_dir
from tools.resident import group_members, resident_bytes
from tools.targets.control import ControlClient
from tools.targets.drivers.llamacpp import LlamaCpp
from tools.targets.drivers.vllm import Vllm
from tools.targets.knobs import Config
from tools.targets.scrape import scraped
from tools.targets.server import ServerTarget
from tools.targets.spec import ServerSpec
from tools.targets.target import Endpoint, LaunchFailed
from tools.targets.vocabulary import exported, missing

PEERS = Path(os.environ["PEERS"]) if "PEERS" in os.environ else None
SMOL = cache_dir() / "smollm2-135m"

pytestmark = pytest.mark.skipif(PEERS is None, reason="PEERS names no folder with engines")


@contextmanager
def launched(target: ServerTarget, config: Config, log: Path) -> Iterator[Endpoint]:
    endpoint = target.launch(config, log=log, timeout_s=280)
    try:
        yield endpoint
    finally:
        target.stop(endpoint)


def complete(endpoint: Endpoint, prompt: str) -> dict[str, Any]:
    """`usage` of one completion."""
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(endpoint.base_url).port or 0, timeout=60)
    body = {"model": endpoint.model, "prompt": prompt, "max_tokens": 4, "temperature": 0}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    usage: dict[str, Any] = json.loads(connection.getresponse().read())["usage"]
    connection.close()
    return usage


def cached(endpoint: Endpoint, prompt: str) -> int:
    return int((complete(endpoint, prompt)["prompt_tokens_details"] or {}).get("cached_tokens") or 0)


def llamacpp(tmp_path: Path, *names: str, arguments: tuple[str, ...] = ()) -> ServerTarget:
    assert PEERS is not None
    folder = build_tiny_model(tmp_path / "tiny")
    write_gguf(folder, tmp_path / "tiny.gguf")
    spec = ServerSpec(
        kind="llamacpp", command=(str(PEERS / "build-llama" / "bin" / "llama-server"),), arguments=arguments
    )
    return ServerTarget(LlamaCpp(tmp_path / "tiny.gguf", spec, names))


def test_llamacpp_from_launch_to_end(tmp_path: Path) -> None:
    target = llamacpp(tmp_path, "parallel", "ctx_size", "threads", "ubatch", arguments=("--cache-ram", "0"))
    config = Config({"parallel": 2, "ctx_size": 1024, "threads": 1, "ubatch": 64})
    prompt = "The river runs slowly to the sea. " * 8
    with launched(target, config, tmp_path / "log") as endpoint:
        identity = target.identify(endpoint)
        assert dict(identity.config) == dict(config.values)
        assert identity.config_digest == config.digest
        assert identity.unreported == ("ctx_size", "ubatch")
        assert identity.model_digest == target.model_digest()
        assert missing("llamacpp", scraped(ControlClient(endpoint.base_url))) == ()
        before = target.counters(endpoint)
        told = [cached(endpoint, prompt) for _ in range(2)]
        after = target.counters(endpoint)
        assert told[0] == 0 < told[1] == after["prefix_hit_tokens"] - before["prefix_hit_tokens"]
        assert after["generation_tokens"] - before["generation_tokens"] == 8
        target.reset_cache(endpoint)
        assert cached(endpoint, prompt) == 0
        need, held = target.memory(config), resident_bytes(group_members(endpoint.pid))
        assert held is not None and need.total_bytes <= 1.1 * held
    assert group_members(endpoint.pid) == ()


def test_llamacpp_tells_what_it_made_of_a_context(tmp_path: Path) -> None:
    target = llamacpp(tmp_path, "parallel", "ctx_size")
    for asked, told in ((200, 256), (2048, 2048)):  # rounded up; the model was made for 512, which says nothing
        config = Config({"parallel": 1, "ctx_size": asked})
        with launched(target, config, tmp_path / f"log-{asked}") as endpoint:
            identity = target.identify(endpoint)
            assert identity.config["ctx_size"] == told
            assert identity.config_digest == config.digest  # the command line's word


def test_vllm_from_launch_to_end(tmp_path: Path) -> None:
    assert PEERS is not None
    if not SMOL.is_dir():
        pytest.skip(f"{SMOL} isn't there: autotune models pull smollm2-135m")
    spec = ServerSpec(
        kind="vllm",
        command=(str(PEERS / "venvs" / "vllm" / "bin" / "vllm"),),
        arguments=("--max-model-len", "1024"),
        environment={"VLLM_CPU_OMP_THREADS_BIND": "0"},
    )
    names = ("max_num_seqs", "max_num_batched_tokens", "enforce_eager", "enable_prefix_caching", "cpu_kvcache_space")
    target = ServerTarget(Vllm(SMOL, spec, names))
    config = Config(dict(zip(names, (8, 512, True, True, 1), strict=True)))
    prompt = "The river runs slowly to the sea, and the sea is wide and blue. " * 12
    with launched(target, config, tmp_path / "log") as endpoint:
        identity = target.identify(endpoint)
        assert dict(identity.config) == dict(config.values)
        assert identity.config_digest == config.digest
        assert identity.unreported == ()
        assert identity.model_digest == target.model_digest()
        assert identity.engine.startswith("vllm 0.")
        assert abs(identity.started_at - identity.process_started_at) < 5
        samples = scraped(ControlClient(endpoint.base_url))
        assert missing("vllm", samples) == ()
        before = target.counters(endpoint)
        assert exported("vllm") <= before.keys()
        told = [cached(endpoint, prompt) for _ in range(2)]
        after = target.counters(endpoint)
        assert told[0] == 0 < told[1] == after["prefix_hit_tokens"] - before["prefix_hit_tokens"]
        assert after["requests"] - before["requests"] == 2
        target.reset_cache(endpoint)
        assert cached(endpoint, prompt) == 0
        need, held = target.memory(config), resident_bytes(group_members(endpoint.pid))
        assert held is not None and need.total_bytes <= held
    assert group_members(endpoint.pid) == ()


def test_what_an_engine_refuses_is_told(tmp_path: Path) -> None:
    target = llamacpp(tmp_path, "parallel", arguments=("--no-such-flag",))
    with pytest.raises(LaunchFailed) as failed:
        target.launch(Config({"parallel": 1}), log=tmp_path / "log", timeout_s=60)
    assert failed.value.kind == "bad_config"
