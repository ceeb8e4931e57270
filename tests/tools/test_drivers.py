"""What each engine is told, what it says of itself, and what follows from its model's shape; answers are recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.tiny_model import build_tiny_model
from tests.tools.answering_server import answering
from tests.tools.gguf_files import write_gguf
from tools.targets.control import ControlError
from tools.targets.drivers.driver import Driver
from tools.targets.drivers.llamacpp import LlamaCpp
from tools.targets.drivers.sglang import SgLang
from tools.targets.drivers.vllm import Vllm
from tools.targets.knobs import Config, KnobError, Value
from tools.targets.spec import ServerSpec

FILES = Path(__file__).parent / "files" / "engines"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2 layers, 2 KV heads of 16, hidden 64, 512 tokens of context, fp32 on disk."""
    return build_tiny_model(tmp_path_factory.mktemp("drivers") / "tiny")


@pytest.fixture(scope="module")
def gguf(folder: Path) -> Path:
    file = folder.with_suffix(".gguf")
    write_gguf(folder, file)
    return file


def vllm(folder: Path, *names: str, **spec: Any) -> Vllm:
    return Vllm(folder, ServerSpec(kind="vllm", **spec), names)


def sglang(folder: Path, *names: str, **spec: Any) -> SgLang:
    return SgLang(folder, ServerSpec(kind="sglang", **spec), names)


def llamacpp(file: Path, *names: str, **spec: Any) -> LlamaCpp:
    return LlamaCpp(file, ServerSpec(kind="llamacpp", **spec), names)


def read(name: str) -> str:
    return (FILES / name).read_text()


def vllm_answers(**changed: tuple[int, str]) -> Mapping[str, Any]:
    usual: dict[str, Any] = {
        "GET /server_info?config_format=json": (200, read("vllm_server_info.json")),
        "GET /metrics": (200, read("vllm_metrics.txt")),
        "GET /v1/models": (200, read("vllm_models.json")),
        "GET /version": (200, '{"version": "0.32.0"}'),
    }
    return usual | changed


# What is started


def test_an_engine_is_started_with_its_own_needs_then_the_owners_words_then_the_config(folder: Path) -> None:
    driver = vllm(
        folder,
        "max_num_seqs",
        "enable_prefix_caching",
        "cpu_kvcache_space",
        command=("/opt/vllm/bin/vllm",),
        arguments=("--dtype", "bfloat16"),
        environment={"VLLM_PLUGINS": "mine"},
    )
    config = Config({"max_num_seqs": 8, "enable_prefix_caching": False, "cpu_kvcache_space": 2})
    start = driver.start(config, "127.0.0.1", 8123)
    assert list(start.words[:3]) == ["/opt/vllm/bin/vllm", "serve", str(folder)]
    words = " ".join(start.words)
    assert "--served-model-name tiny --host 127.0.0.1 --port 8123" in words
    assert words.index("--port") < words.index("--dtype bfloat16") < words.index("--max-num-seqs 8")
    assert "--no-enable-prefix-caching" in start.words
    assert start.environment["VLLM_CPU_KVCACHE_SPACE"] == "2"
    assert start.environment["VLLM_SERVER_DEV_MODE"] == "1"
    assert start.environment["VLLM_PLUGINS"] == "mine"  # the owner's word stands
    assert driver.asked(start.words, start.environment) == dict(config.values)


@pytest.mark.parametrize(
    ("command", "beginning"),
    [
        ((), ["vllm", "serve", "MODEL"]),
        (("vllm", "serve"), ["vllm", "serve", "MODEL"]),
        (
            ("python", "-m", "vllm.entrypoints.openai.api_server"),
            ["python", "-m", "vllm.entrypoints.openai.api_server"],
        ),
    ],
)
def test_each_way_to_start_vllm(folder: Path, command: tuple[str, ...], beginning: list[str]) -> None:
    words = list(vllm(folder, command=command).start(Config({}), "127.0.0.1", 1).words)
    assert words[: len(beginning)] == [str(folder) if word == "MODEL" else word for word in beginning]
    assert ("--model" in words) == (len(command) == 3)


def test_metrics_and_cached_tokens_are_always_asked_for(folder: Path, gguf: Path) -> None:
    assert "--enable-prompt-tokens-details" in vllm(folder).start(Config({}), "127.0.0.1", 1).words
    assert {"--enable-metrics", "--enable-cache-report"} <= set(sglang(folder).start(Config({}), "127.0.0.1", 1).words)
    words = list(llamacpp(gguf).start(Config({}), "127.0.0.1", 1).words)
    assert {"--metrics", "--slots"} <= set(words)
    with pytest.raises(OSError, match="slot"):  # slots can be emptied, and nobody can save one
        (Path(words[words.index("--slot-save-path") + 1]) / "slot").write_bytes(b"")


def test_a_knob_that_the_engine_lacks_is_refused_with_a_suggestion(folder: Path) -> None:
    with pytest.raises(KnobError, match="max_num_seqs"):
        vllm(folder, "max_num_seq")


# What they say of themselves


def test_vllm_tells_its_config_as_it_is_in_effect(folder: Path) -> None:
    driver = vllm(
        folder,
        "max_num_seqs",
        "max_num_batched_tokens",
        "block_size",
        "enforce_eager",
        "async_scheduling",
        "enable_prefix_caching",
        "cpu_kvcache_space",
        "kv_cache_dtype",
        "scheduling_policy",
        "quantization",
        "num_speculative_tokens",
        "dtype",
        "max_model_len",
        "cudagraph_mode",
        "optimization_level",
        "num_gpu_blocks_override",
        served_name="smol",
    )
    with answering(vllm_answers()) as server:
        assert driver.effective(server.client, None) == {
            "max_num_seqs": 8,
            "max_num_batched_tokens": 2048,
            "block_size": 128,  # what a CPU takes by itself
            "enforce_eager": True,
            "async_scheduling": False,
            "enable_prefix_caching": True,
            "cpu_kvcache_space": 1,
            "kv_cache_dtype": "auto",
            "scheduling_policy": "fcfs",
            "quantization": "none",
            "num_speculative_tokens": 0,
            "dtype": "bfloat16",
            "max_model_len": 1024,
            "cudagraph_mode": "NONE",
            "optimization_level": 2,
        }  # and of num_gpu_blocks_override it says nothing
        assert driver.serves(server.client) == Path("/models/smollm2-135m")
        assert driver.version(server.client) == "0.32.0"
        scrape = [s for f in text_string_to_metric_families(read("vllm_metrics.txt")) for s in f.samples]
        assert driver.started_at(scrape) == pytest.approx(1796076560.18)


def test_vllm_without_development_mode_tells_what_its_metrics_do(folder: Path) -> None:
    driver = vllm(
        folder, "max_num_seqs", "block_size", "enable_prefix_caching", "kv_cache_dtype", "gpu_memory_utilization"
    )
    told: dict[str, Value] = {
        "block_size": 128,
        "enable_prefix_caching": True,
        "kv_cache_dtype": "auto",
        "gpu_memory_utilization": 0.92,
    }
    for other in ((404, ""), (200, '{"vllm_config": "model=..., dtype=torch.bfloat16"}')):
        with answering(vllm_answers(**{"GET /server_info?config_format=json": other})) as server:
            assert driver.effective(server.client, None) == told


def test_vllm_whose_two_words_differ_is_no_witness(folder: Path) -> None:
    info = json.loads(read("vllm_server_info.json"))
    info["vllm_config"]["cache_config"]["enable_prefix_caching"] = False
    lying = vllm_answers(**{"GET /server_info?config_format=json": (200, json.dumps(info))})
    with answering(lying) as server, pytest.raises(ControlError, match=r"enable_prefix_caching is False.*True"):
        vllm(folder, "enable_prefix_caching").effective(server.client, None)


def test_another_model_than_ours_is_named(folder: Path, gguf: Path) -> None:
    with answering(vllm_answers()) as server, pytest.raises(ControlError, match="expected the model tiny, found smol"):
        vllm(folder).serves(server.client)
    with answering({"GET /props": (200, read("llamacpp_props.json"))}) as server:
        assert llamacpp(gguf, served_name="smol").serves(server.client) == Path("/models/smollm2-135m-bf16.gguf")
        with pytest.raises(ControlError, match="expected the model tiny, found smol"):
            llamacpp(gguf).serves(server.client)


def test_llamacpp_tells_over_http_and_in_its_log(gguf: Path) -> None:
    driver = llamacpp(gguf, "parallel", "ctx_size", "threads", "batch", "ubatch", "cache_type_k", "flash_attn")
    with answering({"GET /props": (200, read("llamacpp_props.json"))}) as server:
        assert driver.effective(server.client, None) == {"parallel": 2}
        usual = driver.effective(server.client, FILES / "llamacpp_log.txt")
        assert usual == {"parallel": 2, "threads": 1, "kv_unified": False}
        assert driver.effective(server.client, FILES / "llamacpp_log_trace.txt") == {
            **usual,
            "batch": 1024,  # asked were 2048, and the context holds no more
            "ubatch": 512,
            "cache_type_k": "f16",
            "cache_type_v": "f16",
            "flash_attn": True,
        }


def test_llamacpp_tells_the_context_of_one_slot_alone(gguf: Path) -> None:
    props = json.loads(read("llamacpp_props.json"))
    driver = llamacpp(gguf, "ctx_size", "threads")
    assert driver.knobs["threads"].auto == 0  # all cores: what it runs with is another number
    for slots, context, told in ((1, 256, 256), (1, 512, None), (2, 256, None)):  # the model was made for 512
        said = props | {"total_slots": slots, "default_generation_settings": {"n_ctx": context}}
        with answering({"GET /props": (200, json.dumps(said))}) as server:
            assert driver.effective(server.client, FILES / "llamacpp_log.txt").get("ctx_size") == told


@pytest.mark.parametrize("path", ["/server_info", "/get_server_info"])
def test_sglang_tells_what_its_scheduler_made_of_its_arguments(folder: Path, path: str) -> None:
    info = json.loads(read("sglang_server_info.json"))
    info["internal_states"][0]["effective_max_running_requests_per_dp"] = 96
    driver = sglang(
        folder,
        "max_running_requests",
        "max_total_tokens",
        "mem_fraction_static",
        "chunked_prefill_size",
        "disable_radix_cache",
        "quantization",
        "speculative_algorithm",
        "max_queued_requests",
        served_name="qwen/qwen2.5-0.5b-instruct",
    )
    with answering({f"GET {path}": (200, json.dumps(info))}) as server:
        assert driver.effective(server.client, None) == {
            "max_running_requests": 96,  # asked were 128
            "max_total_tokens": 20480,
            "mem_fraction_static": 0.907,
            "chunked_prefill_size": 8192,
            "disable_radix_cache": False,
            "quantization": "none",
            "speculative_algorithm": "none",
        }
        assert driver.serves(server.client) == Path("qwen/qwen2.5-0.5b-instruct")
        assert driver.version(server.client) == "0.0.0.dev1+gf97c09dac"


# Emptying the cache


def test_vllm_waits_for_blocks_that_are_held_a_moment_longer(folder: Path) -> None:
    busy, done = (200, '{"success": false}'), (200, '{"success": true}')
    with answering({"POST /reset_prefix_cache": [busy, busy, done]}) as server:
        vllm(folder).reset_cache(server.client)
        assert server.asked.count("POST /reset_prefix_cache") == 3
    with answering({"POST /reset_prefix_cache": (200, "")}) as server:  # older versions say nothing
        vllm(folder).reset_cache(server.client)


def test_a_cache_that_stays_full_is_an_error(folder: Path, gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.targets.drivers.vllm_word._RESET_S", 0.2)
    held = {"POST /reset_prefix_cache": (200, '{"success": false}')}
    with answering(held) as server, pytest.raises(ControlError, match="requests are running"):
        vllm(folder).reset_cache(server.client)
    with answering({}) as server, pytest.raises(ControlError, match="expected 200, found 404"):
        vllm(folder).reset_cache(server.client)
    failed = {"POST /flush_cache": (400, "Flush cache failed.")}
    with answering(failed) as server, pytest.raises(ControlError, match=r"400.*Flush cache failed"):
        sglang(folder).reset_cache(server.client)
    refused = {"GET /props": (200, read("llamacpp_props.json")), "POST /slots/0?action=erase": (501, "start it with")}
    with answering(refused) as server, pytest.raises(ControlError, match="501"):
        llamacpp(gguf).reset_cache(server.client)


def test_llamacpp_empties_every_slot(gguf: Path) -> None:
    erased = {f"POST /slots/{slot}?action=erase": (200, "{}") for slot in (0, 1)}
    with answering({"GET /props": (200, read("llamacpp_props.json")), **erased}) as server:
        llamacpp(gguf).reset_cache(server.client)
        assert set(erased) <= set(server.asked)


# What follows from the model's shape


def test_the_kv_cache_takes_no_more_than_it_is_given(folder: Path, gguf: Path) -> None:
    token = 2 * 2 * 2 * 16 * 2  # layers, keys and values, heads, size, bytes
    llama = llamacpp(gguf, "ctx_size", "parallel")
    sized = llama.kv_sized(Config({"ctx_size": 1024, "parallel": 2}), 1_000_000)
    assert sized.values["ctx_size"] == 1_000_000 // token // 512 * 512  # 256 for each of two slots
    assert 0.5 * 1_000_000 < llama.memory(sized).kv_cache_bytes <= 1_000_000
    gib = vllm(folder, "cpu_kvcache_space")
    assert gib.kv_sized(Config({"cpu_kvcache_space": 1}), 3 * 2**30 - 1).values == {"cpu_kvcache_space": 2}
    exact = vllm(folder, "cpu_kvcache_space", "kv_cache_memory_bytes")
    assert exact.kv_sized(Config({"cpu_kvcache_space": 1}), 2**28).values["kv_cache_memory_bytes"] == 2**28
    tokens = sglang(folder, "max_total_tokens").kv_sized(Config({"max_total_tokens": 9999}), 1_000_000)
    assert tokens.values == {"max_total_tokens": 1_000_000 // token}


def test_a_kv_cache_that_nothing_sizes_or_that_is_too_small_is_refused(folder: Path, gguf: Path) -> None:
    for driver in (vllm(folder, "max_num_seqs"), sglang(folder), llamacpp(gguf, "parallel")):
        with pytest.raises(KnobError, match="under config:"):
            driver.kv_sized(Config({}), 2**30)
    with pytest.raises(KnobError, match="cpu_kvcache_space"):
        vllm(folder, "cpu_kvcache_space").kv_sized(Config({"cpu_kvcache_space": 1}), 2**30 - 1)
    with pytest.raises(KnobError, match="512 tokens at least"):
        llamacpp(gguf, "ctx_size", "parallel").kv_sized(Config({"parallel": 2, "ctx_size": 512}), 1000)


def test_memory_counts_what_the_owners_words_set_too(folder: Path, gguf: Path) -> None:
    small, large = (
        vllm(folder, "max_num_seqs", environment={"VLLM_CPU_KVCACHE_SPACE": str(gib)}).memory(
            Config({"max_num_seqs": 8})
        )
        for gib in (1, 3)
    )
    assert large.total_bytes - small.total_bytes == 2 << 30
    fp16, fp32 = (vllm(folder, arguments=("--dtype", dtype)).memory(Config({})) for dtype in ("bfloat16", "float32"))
    assert fp32.weights_bytes == 2 * fp16.weights_bytes
    half, whole = (
        llamacpp(gguf, "cache_type_k", arguments=("-c", "2048", "-np", "1")).memory(Config({"cache_type_k": kind}))
        for kind in ("q8_0", "f16")
    )
    assert half.kv_cache_bytes == whole.kv_cache_bytes * (34 / 32 + 2) / 4


def test_facts_take_the_leanest_value_of_a_free_knob(folder: Path, gguf: Path) -> None:
    driver = vllm(folder, "quantization", "num_speculative_tokens", "kv_cache_dtype")
    config = Config({"quantization": "none", "num_speculative_tokens": 0, "kv_cache_dtype": "auto"})
    base, quantised = driver.facts(config), driver.facts(config, free={"quantization"})
    guessing = driver.facts(config.patched({"num_speculative_tokens": 3}))
    assert base is not None and quantised is not None and guessing is not None
    assert base.step_bytes == 2 * (base.token_parameters + base.head_parameters)
    assert quantised.step_bytes < base.step_bytes and quantised.arithmetic_gain == 2.0
    assert guessing.step_bytes == base.step_bytes // 4
    cached = driver.facts(config, free={"kv_cache_dtype"})
    assert cached is not None and cached.kv_bytes < base.kv_bytes
    llama = llamacpp(gguf).facts(Config({}))
    assert llama is not None and llama.step_bytes == 4 * base.token_parameters + 4 * base.head_parameters


def test_no_facts_where_tokens_are_guessed_by_words_that_no_knob_stands_for(folder: Path, gguf: Path) -> None:
    assert vllm(folder, arguments=("--spec-method", "ngram")).facts(Config({})) is None
    assert llamacpp(gguf, arguments=("--model-draft", "small.gguf")).facts(Config({})) is None
    assert llamacpp(gguf, "spec_type").facts(Config({"spec_type": "ngram-simple"})) is None
    assert llamacpp(gguf, "spec_type").facts(Config({"spec_type": "none"})) is not None
    assert sglang(folder, "speculative_algorithm").facts(Config({}), free={"speculative_algorithm"}) is None


def test_a_search_stays_within_the_machine(folder: Path, gguf: Path) -> None:
    llama = llamacpp(gguf, "threads", "ctx_size", "parallel")
    around = Config({"threads": 1, "ctx_size": 1024, "parallel": 1})
    space = llama.narrowed(llama.knobs, around, cores=2, memory_bytes=64 << 20)
    assert space["threads"].high == 2
    high = space["ctx_size"].high
    assert high is not None
    assert llama.memory(around.patched({"ctx_size": int(high)})).total_bytes <= (64 << 20) + (1 << 16)
    driver = vllm(folder, "cpu_kvcache_space", "max_num_seqs")
    narrow = driver.narrowed(
        driver.knobs, Config({"cpu_kvcache_space": 4, "max_num_seqs": 8}), cores=2, memory_bytes=6 << 30
    )
    assert narrow["cpu_kvcache_space"].high in (4, 5) and narrow["max_num_seqs"] == driver.knobs["max_num_seqs"]


def test_each_is_a_driver(folder: Path, gguf: Path) -> None:
    drivers: list[Driver] = [vllm(folder), sglang(folder), llamacpp(gguf)]
    kinds = get_args(ServerSpec.model_fields["kind"].annotation)
    assert {driver.name for driver in drivers} == set(kinds)
    assert all(driver.served_as == "tiny" and driver.model.exists() for driver in drivers)
