"""ModelConfig: the shape of a model, read from a Hugging Face directory without loading weights or importing torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import StartRefused

__all__ = ["ARCHITECTURES", "ModelConfig", "RopeScaling"]

ARCHITECTURES = ("LlamaForCausalLM", "Qwen2ForCausalLM")


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """Llama 3.1's stretch of the rotary frequencies; the names are those of config.json."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Shapes and constants of a Llama-family decoder."""

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None
    tie_word_embeddings: bool
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    dtype: str
    "Dtype of the checkpoint, in torch's words: bfloat16, float16, float32."
    eos_token_ids: frozenset[int]

    @property
    def num_parameters(self) -> int:
        """Parameters as they are stored: a tied output head counts once."""
        query_rows, kv_rows = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        qkv_rows = query_rows + 2 * kv_rows
        attention = qkv_rows * self.hidden_size + self.hidden_size * query_rows
        attention += self.qkv_bias * qkv_rows + self.output_bias * self.hidden_size
        mlp = 3 * self.hidden_size * self.intermediate_size
        mlp += self.mlp_bias * (2 * self.intermediate_size + self.hidden_size)
        per_layer = attention + mlp + 2 * self.hidden_size
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tie_word_embeddings else 2)
        return embeddings + self.num_layers * per_layer + self.hidden_size

    @classmethod
    def load(cls, directory: Path) -> ModelConfig:
        """The config of the model in `directory`.

        Raises:
            StartRefused: model_missing where there is no model, bad_config where it is one the engine can't run.
        """
        path = directory / "config.json"
        if not directory.is_dir():
            raise StartRefused(
                "model_missing", f"there is no directory {directory}; give a Hugging Face model directory"
            )
        if not path.is_file():
            raise StartRefused(
                "model_missing", f"{directory} holds no config.json; give a Hugging Face model directory"
            )
        if not any(directory.glob("*.safetensors")):
            raise StartRefused(
                "model_missing", f"{directory} holds no *.safetensors; the engine reads no other weights"
            )
        try:
            data = json.loads(path.read_text())
            generation = directory / "generation_config.json"
            generation_data = json.loads(generation.read_text()) if generation.is_file() else {}
            return cls.from_json(data, generation_data)
        except json.JSONDecodeError as error:
            raise StartRefused("bad_config", f"{path} is not JSON: {error}") from error
        except KeyError as error:
            raise StartRefused("bad_config", f"{path} lacks {error}") from error

    @classmethod
    def from_json(cls, data: Mapping[str, Any], generation: Mapping[str, Any] | None = None) -> ModelConfig:
        """The shape that config.json (and generation_config.json) describe.

        Raises:
            StartRefused: kind bad_config; an architecture or a variant of it that the engine doesn't have.
            KeyError: a size that every such config states is absent.
        """
        architecture = (data.get("architectures") or ["(none stated)"])[0]
        if architecture not in ARCHITECTURES:
            raise unsupported(f"architecture {architecture}", "known ones are " + " and ".join(ARCHITECTURES))
        if data.get("hidden_act", "silu") != "silu":
            raise unsupported(f"activation {data['hidden_act']}", "silu is the known one")
        if data.get("use_sliding_window"):
            raise unsupported("sliding-window attention", "a checkpoint with use_sliding_window false would run")
        if data.get("quantization_config"):
            raise unsupported("a quantised checkpoint", "convert it to bf16, fp16 or fp32 safetensors first")
        is_qwen = architecture == "Qwen2ForCausalLM"
        heads = data["num_attention_heads"]
        theta, scaling = rope_of(data)
        return cls(
            architecture=architecture,
            vocab_size=data["vocab_size"],
            hidden_size=data["hidden_size"],
            intermediate_size=data["intermediate_size"],
            num_layers=data["num_hidden_layers"],
            num_heads=heads,
            num_kv_heads=data.get("num_key_value_heads") or heads,
            head_dim=data.get("head_dim") or data["hidden_size"] // heads,
            max_position_embeddings=data["max_position_embeddings"],
            rms_norm_eps=data["rms_norm_eps"],
            rope_theta=theta,
            rope_scaling=scaling,
            tie_word_embeddings=data.get("tie_word_embeddings", False),
            qkv_bias=is_qwen or data.get("attention_bias", False),
            output_bias=not is_qwen and data.get("attention_bias", False),
            mlp_bias=data.get("mlp_bias", False),
            dtype=data.get("dtype") or data.get("torch_dtype") or "float32",
            eos_token_ids=token_ids(data.get("eos_token_id")) | token_ids((generation or {}).get("eos_token_id")),
        )


def rope_of(data: Mapping[str, Any]) -> tuple[float, RopeScaling | None]:
    """Rotary base and scaling, from `rope_parameters` (transformers 5) or `rope_theta` + `rope_scaling` (before)."""
    rope = data.get("rope_parameters") or data.get("rope_scaling") or {}
    theta = float(rope.get("rope_theta") or data.get("rope_theta") or 10000.0)
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise unsupported("a partial rotary embedding", "only whole heads are rotated")
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise unsupported(f"rope type {kind}", "known ones are default and llama3")
    original = rope.get("original_max_position_embeddings") or data["max_position_embeddings"]
    return theta, RopeScaling(rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"], original)


def token_ids(value: int | list[int] | None) -> frozenset[int]:
    if value is None:
        return frozenset()
    return frozenset(value if isinstance(value, list) else [value])


def unsupported(what: str, hint: str) -> StartRefused:
    return StartRefused("bad_config", f"the model has {what}, which the engine doesn't support; {hint}")
