"""What of our environment a server sees: where things are, and nothing that shapes, opens, loads or proves."""

from __future__ import annotations

import pytest

from tools.targets.environment import allowed_environment, is_secret


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "HOME", "LD_LIBRARY_PATH", "XDG_CACHE_HOME", "HF_HOME", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"),
        *("VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "LLAMA_CACHE", "VLLM_NO_USAGE_STATS"),
    ],
)
def test_what_engines_need_to_run_and_to_find_their_caches_passes(name: str) -> None:
    assert allowed_environment({name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "PYTHONPATH", "PYTHONSTARTUP", "VLLM_PLUGINS", "GGML_BACKEND_PATH", "VLLM_NCCL_SO_PATH"),
        *("VLLM_SERVER_DEV_MODE", "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "VLLM_ALLOW_INSECURE_SERIALIZATION"),
        *(
            "VLLM_CPU_KVCACHE_SPACE",
            "VLLM_CPU_OMP_THREADS_BIND",
            "LLAMA_ARG_PARALLEL",
            "LLAMA_ARG_HOST",
            "SGLANG_USE_X",
        ),
        *("VLLM_API_KEY", "LLAMA_API_KEY", "HF_TOKEN", "CUDA_KEY", "HF_HUB_AUTH", "TORCH_PASSWORD", "OMP_SECRET"),
    ],
)
def test_what_loads_opens_shapes_or_proves_does_not(name: str) -> None:
    assert allowed_environment({name: "x"}) == {}


@pytest.mark.parametrize("name", ["HF_TOKEN", "OPENAI_APIKEY", "db_password", "AWS_CREDENTIALS", "MY_AUTH_HEADER"])
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "MAX_TOKENS", "AUTHOR", "KEYBOARD", "VLLM_CPU_KVCACHE_SPACE"]
)
def test_what_only_sounds_like_one_is_none(name: str) -> None:
    assert not is_secret(name)
