"""What config.json means: every spelling of it, what it may leave unsaid, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import StartRefused
from engine.knobs import EngineKnobs
from engine.loading import load_engine
from engine.model_config import ModelConfig
from tests.tiny_model import GEMMA3_CONFIG, build_tiny_model

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "architecture MambaForCausalLM"),
        ({"hidden_act": "gelu"}, "activation gelu"),
        ({"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4}}, "rope type longrope"),
        ({"rope_parameters": {"rope_type": "default", "mrope_section": [1, 2]}}, "mrope_section"),
        ({"partial_rotary_factor": 0.5}, "partial rotary"),
        ({"num_local_experts": 8}, "mixture of experts"),
        ({"final_logit_softcapping": 30.0}, "soft-capped logits"),
        ({"use_bidirectional_attention": True}, "both directions"),
        ({"architectures": ["Qwen3ForCausalLM"], "layer_types": ["linear_attention"] * 2}, "type linear_attention"),
        ({"architectures": ["Qwen3ForCausalLM"], "layer_types": ["full_attention"]}, "2 layers but 1 layer_types"),
        ({"quantization_config": {"quant_method": "awq"}}, r"quantised checkpoint \(awq\)"),
    ],
)
def test_a_model_that_cannot_be_run_right_is_refused_by_name(
    tiny_model: Path, change: dict[str, Any], sentence: str
) -> None:
    config = json.loads((tiny_model / "config.json").read_text()) | change
    with pytest.raises(StartRefused, match=sentence) as refusal:
        ModelConfig.from_json(config)
    assert refusal.value.kind == "bad_config"


def test_old_and_new_spellings_of_the_rotary_settings_mean_the_same(tiny_model: Path) -> None:
    config = json.loads((tiny_model / "config.json").read_text())
    new = ModelConfig.from_json(config | {"rope_parameters": LLAMA3_ROPE})
    del config["rope_parameters"]
    scaling = {name: value for name, value in LLAMA3_ROPE.items() if name != "rope_theta"}
    assert ModelConfig.from_json(config | {"rope_theta": 500000.0, "rope_scaling": scaling}) == new
    gemma = config | GEMMA3_CONFIG | {"architectures": ["Gemma3ForCausalLM"], "hidden_act": "gelu_pytorch_tanh"}
    new = ModelConfig.from_json(gemma)
    del gemma["rope_parameters"], gemma["layer_types"]
    old = {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": {"type": "linear", "factor": 4.0}}
    assert ModelConfig.from_json(gemma | old | {"sliding_window_pattern": 2}) == new
    assert new.windows == (48, 0)


def test_what_config_json_leaves_unsaid_is_what_transformers_takes() -> None:
    sizes = {"hidden_size": 640, "intermediate_size": 2048, "num_hidden_layers": 18}
    gemma = ModelConfig.from_json({"architectures": ["Gemma3ForCausalLM"], **sizes})
    assert (gemma.tie_word_embeddings, gemma.num_heads, gemma.num_kv_heads, gemma.head_dim) == (True, 8, 4, 256)
    assert gemma.windows[:6] == (4096,) * 5 + (0,) and (gemma.rope.theta, gemma.local_rope.theta) == (1e6, 1e4)
    more = {"vocab_size": 9, "num_attention_heads": 8, "max_position_embeddings": 99, "rms_norm_eps": 1e-5}
    mistral = {"architectures": ["MistralForCausalLM"], **sizes, **more}
    assert ModelConfig.from_json(mistral).windows == (4096,) * 18
    assert ModelConfig.from_json({**mistral, "sliding_window": None}).windows == (0,) * 18
    generation = {"eos_token_id": [3, 5]}
    assert ModelConfig.from_json({**mistral, "eos_token_id": 2}, generation).eos_token_ids == {2, 3, 5}


def test_shapes_that_native_kernels_cannot_compute_fall_back_to_pytorch(tmp_path: Path) -> None:
    said: list[str] = []
    directory = build_tiny_model(tmp_path / "odd", head_dim=24)
    knobs = EngineKnobs(dtype="bf16", num_threads=1, kv_cache_tokens=512)
    engine = load_engine(directory, knobs, say=said.append)
    assert engine.knobs.kernels == "torch"
    assert "native kernels can't run here" in said[0]
