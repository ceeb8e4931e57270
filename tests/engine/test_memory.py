"""The closed formula: it counts what is there, and refuses before anything is loaded."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from engine import EngineKnobs, ModelConfig, StartRefused, plan_memory
from engine.device import available_cores, available_memory_bytes
from engine.kernels.torch_kernels import TorchKernels
from engine.kernels.torch_linear import can_prepack, tensor_bytes
from engine.loading import load_engine
from engine.model import Model
from engine.resolve import TORCH_DTYPES, require_memory, resolve
from engine.weights import load_model
from tests.tiny_model import build_tiny_model

SMOL = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}


def test_parameters_are_those_in_the_file(tiny_model: Path) -> None:
    stored = sum(tensor.numel() for tensor in load_file(tiny_model / "model.safetensors").values())
    assert ModelConfig.load(tiny_model).num_parameters == stored
    assert ModelConfig.from_json(SMOL).num_parameters == 134_515_008  # as its model card has it: 135M


def weight_bytes(model: Model) -> int:
    """All that a loaded model holds, a shared output head and a shared rotary table once."""
    attentions = [layer.attention for layer in model.layers]
    norms = [model._norm]
    for layer in model.layers:
        norms += [layer.input_norm, layer.mlp_norm]
        norms += [norm for norm in (layer.added_attention_norm, layer.added_mlp_norm) if norm is not None]
    for attention in attentions:
        norms += [norm for norm in (attention.query_norm, attention.key_norm) if norm is not None]
    tables = {id(attention.rotary): attention.rotary for attention in attentions}
    linears = [linear for layer in model.layers for linear in layer.linears]
    is_shared = getattr(model.head, "weight", None) is model._embedding
    return (
        tensor_bytes(model._embedding, *norms, *tables.values())
        + sum(linear.num_bytes for linear in linears)
        + (0 if is_shared else model.head.num_bytes)
    )


@pytest.mark.parametrize("quantization", ["none", "int8", "int4"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(
    "overrides",
    [{}, {"model_type": "qwen2", "tie_word_embeddings": False}, {"model_type": "qwen3"}, {"model_type": "gemma3_text"}],
    ids=["llama", "qwen2, untied", "qwen3", "gemma3"],
)
def test_the_weights_are_as_large_as_the_formula_says(
    tmp_path: Path, overrides: dict[str, Any], dtype: str, quantization: str
) -> None:
    directory = build_tiny_model(tmp_path / "model", num_key_value_heads=4, **overrides)
    config, device = ModelConfig.load(directory), torch.device("cpu")
    assert config.num_parameters == sum(
        tensor.numel() for tensor in load_file(directory / "model.safetensors").values()
    )
    model = load_model(
        directory,
        config,
        kernels=TorchKernels(),
        dtype=TORCH_DTYPES[dtype],
        device=device,
        max_model_len=300,
        quantization=quantization,
    )
    knobs = EngineKnobs(dtype=dtype, quantization=quantization, max_model_len=300)  # type: ignore[arg-type]
    plan = plan_memory(config, knobs, prepacked=can_prepack(TORCH_DTYPES[dtype], device))
    assert plan.weights_bytes == weight_bytes(model)


def test_the_kv_cache_is_as_large_as_the_formula_says(tiny_model: Path) -> None:
    engine = load_engine(tiny_model, EngineKnobs(dtype="fp32", kv_cache_tokens=1000, num_threads=1))
    assert engine.cache.num_bytes == engine.memory.kv_cache_bytes
    assert engine.memory.kv_cache_bytes == 992 * 2 * 2 * 16 * 4 * 2  # tokens, k and v, heads, head_dim, fp32, layers
    assert sum(engine.memory.parts.values()) == engine.memory.total_bytes


@settings(max_examples=100)
@given(st.integers(1, 512), st.integers(512, 16384), st.integers(8192, 1_000_000), st.sampled_from([16, 32, 64]))
def test_more_never_needs_less(seqs: int, batched: int, capacity: int, block_size: int) -> None:
    model = ModelConfig.from_json(SMOL)
    knobs = EngineKnobs(
        max_num_seqs=seqs,
        max_num_batched_tokens=batched,
        kv_cache_tokens=capacity,
        block_size=block_size,  # type: ignore[arg-type]
    )
    plan = plan_memory(model, knobs)
    for change in ({"kv_cache_tokens": capacity * 2}, {"dtype": "fp32"}):
        assert plan_memory(model, dataclasses.replace(knobs, **change)).total_bytes > plan.total_bytes
    fewer_bits = [dataclasses.replace(knobs, quantization=name) for name in ("none", "int8", "int4")]  # type: ignore[arg-type]
    weights = [plan_memory(model, each).weights_bytes for each in fewer_bits]
    assert weights == sorted(set(weights), reverse=True)
    fewer = dataclasses.replace(knobs, max_num_seqs=max(1, seqs // 2))
    assert plan_memory(model, fewer).total_bytes <= plan.total_bytes


def test_too_large_a_cache_is_refused_as_oom_before_anything_is_loaded() -> None:
    model = dataclasses.replace(ModelConfig.from_json(SMOL), num_layers=3000)
    with pytest.raises(StartRefused, match=r"needs .* GiB, but .* GiB are free \(kv_cache") as refusal:
        require_memory(resolve(EngineKnobs(kv_cache_tokens=4_000_000), model), model)
    assert refusal.value.kind == "oom"


def test_a_cache_smaller_than_one_sequence_is_refused() -> None:
    with pytest.raises(StartRefused, match="raise it, or lower --max-model-len") as refusal:
        resolve(EngineKnobs(kv_cache_tokens=8191), ModelConfig.from_json(SMOL))
    assert refusal.value.kind == "bad_config"
    assert resolve(EngineKnobs(kv_cache_tokens=8192), ModelConfig.from_json(SMOL)).max_model_len == 8192


def test_placeholders_are_resolved_and_given_values_kept(tiny_model: Path) -> None:
    model = ModelConfig.load(tiny_model)
    knobs = resolve(EngineKnobs(), model)
    assert (knobs.max_model_len, knobs.dtype) == (512, "fp32")
    assert knobs.num_threads == available_cores() >= 1
    given_knobs = EngineKnobs(max_model_len=100, dtype="bf16", num_threads=3, async_scheduling="on")
    assert resolve(given_knobs, model) == given_knobs
    with pytest.raises(StartRefused, match="made for 512 tokens"):
        resolve(EngineKnobs(max_model_len=513), model)


def test_the_limits_of_a_container_count(tmp_path: Path) -> None:
    assert available_cores(tmp_path) == available_cores()
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9000 kB\nMemAvailable: 8000 kB\n")
    assert available_memory_bytes(tmp_path, meminfo) == 8000 << 10
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "memory.max").write_text("4096000\n")
    (tmp_path / "memory.current").write_text("3000000\n")
    (tmp_path / "memory.stat").write_text("anon 1000000\nfile 2000000\n")
    assert available_cores(tmp_path) == 1
    assert available_memory_bytes(tmp_path, meminfo) == 3_096_000


def test_the_formula_and_the_table_need_no_torch(tiny_model: Path) -> None:
    program = (
        "import sys; from pathlib import Path; import engine; "
        f"model = engine.ModelConfig.load(Path({json.dumps(str(tiny_model))})); "
        "engine.plan_memory(model, engine.EngineKnobs()); engine.knob_table(); "
        "assert not {'torch', 'transformers', 'pydantic', 'aiohttp'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_core_needs_no_http_libraries() -> None:
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('pydantic', 'aiohttp', 'openai'), None)); import engine.core; "
        "engine.core.Engine"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
