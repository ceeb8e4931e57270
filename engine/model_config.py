"""ModelConfig: the shape of a model, read from a Hugging Face directory without loading weights or importing torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from engine.errors import StartRefused
from engine.model_rope import Llama3Scaling, Rope, YarnScaling, layer_windows, ropes_of, unsupported

__all__ = ["ARCHITECTURES", "Llama3Scaling", "ModelConfig", "Rope", "YarnScaling"]

GEMMA3: Mapping[str, Any] = MappingProxyType(
    {
        "vocab_size": 262208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "sliding_window": 4096,
        "query_pre_attn_scalar": 256,
        "hidden_act": "gelu_pytorch_tanh",
        "eos_token_id": 1,
    }
)

ARCHITECTURES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "LlamaForCausalLM": {},
        "MistralForCausalLM": {"sliding_window": 4096},
        "Qwen2ForCausalLM": {},
        "Qwen3ForCausalLM": {"head_dim": 128},
        "Gemma3ForCausalLM": GEMMA3,
        "Gemma3ForConditionalGeneration": GEMMA3,
    }
)
"""Architectures that can be served, and what their config.json may leave unsaid: transformers' defaults."""

ACTIVATIONS: Mapping[str, Literal["silu", "gelu_tanh"]] = MappingProxyType(
    {"silu": "silu", "swish": "silu", "gelu_pytorch_tanh": "gelu_tanh"}
)

UNSUPPORTED: Mapping[str, str] = MappingProxyType(
    {
        "num_experts": "a mixture of experts",
        "num_local_experts": "a mixture of experts",
        "attn_logit_softcapping": "soft-capped attention scores",
        "final_logit_softcapping": "soft-capped logits",
        "use_bidirectional_attention": "attention in both directions",
    }
)
"""Keys of config.json which, where they are set, change what is computed in a way that the engine doesn't have."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Shapes and constants of a decoder of the Llama family."""

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
    rope: Rope
    local_rope: Rope
    "Of the layers with a window; Gemma 3 has another one there."
    windows: tuple[int, ...]
    "Tokens that each layer's attention sees, the last itself included; 0: all."
    tie_word_embeddings: bool
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    query_key_norm: bool
    norms_around: bool
    "Gemma: norms after attention and MLP too, and every norm's weight is stored less one."
    activation: Literal["silu", "gelu_tanh"]
    attention_scale: float
    embedding_scale: float
    dtype: str
    "Dtype of the checkpoint, in torch's words: bfloat16, float16, float32."
    eos_token_ids: frozenset[int]

    @property
    def linear_shapes(self) -> tuple[tuple[int, int, bool], ...]:
        """(rows, columns, bias) of each product of a layer: q, k, v together; output; gate and up together; down."""
        query_rows, hidden, inner = self.num_heads * self.head_dim, self.hidden_size, self.intermediate_size
        qkv_rows = query_rows + 2 * self.num_kv_heads * self.head_dim
        return (
            (qkv_rows, hidden, self.qkv_bias),
            (hidden, query_rows, self.output_bias),
            (2 * inner, hidden, self.mlp_bias),
            (hidden, inner, self.mlp_bias),
        )

    @property
    def num_norm_weights(self) -> int:
        """Weights of all norms."""
        per_layer = (4 if self.norms_around else 2) * self.hidden_size + 2 * self.query_key_norm * self.head_dim
        return self.num_layers * per_layer + self.hidden_size

    @property
    def num_parameters(self) -> int:
        """Parameters as they are stored: a tied output head counts once."""
        per_layer = sum(rows * columns + bias * rows for rows, columns, bias in self.linear_shapes)
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tie_word_embeddings else 2)
        return embeddings + self.num_layers * per_layer + self.num_norm_weights

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
    def from_json(cls, config: Mapping[str, Any], generation: Mapping[str, Any] | None = None) -> ModelConfig:
        """The shape that config.json (and generation_config.json) describe.

        Raises:
            StartRefused: kind bad_config; an architecture or a variant of it that the engine doesn't have.
            KeyError: a size that every such config states is absent.
        """
        architecture = (config.get("architectures") or ["(none stated)"])[0]
        if architecture not in ARCHITECTURES:
            raise unsupported(f"architecture {architecture}", "known ones are " + ", ".join(ARCHITECTURES))
        stated = {**config, **config.get("text_config", {})}
        data = {**ARCHITECTURES[architecture], **{key: value for key, value in stated.items() if value is not None}}
        if stated.get("sliding_window", 0) is None:
            data["sliding_window"] = 0
        refuse_variants(data)
        is_gemma = architecture.startswith("Gemma3")
        heads, head_dim = data["num_attention_heads"], data.get("head_dim")
        head_dim = head_dim or data["hidden_size"] // heads
        rope, local_rope = ropes_of(data, is_gemma)
        attention_bias = bool(data.get("attention_bias", False))
        return cls(
            architecture=architecture,
            vocab_size=data["vocab_size"],
            hidden_size=data["hidden_size"],
            intermediate_size=data["intermediate_size"],
            num_layers=data["num_hidden_layers"],
            num_heads=heads,
            num_kv_heads=data.get("num_key_value_heads", heads),
            head_dim=head_dim,
            max_position_embeddings=data["max_position_embeddings"],
            rms_norm_eps=data["rms_norm_eps"],
            rope=rope,
            local_rope=local_rope,
            windows=layer_windows(architecture, data),
            tie_word_embeddings=data.get("tie_word_embeddings", False),
            qkv_bias=architecture == "Qwen2ForCausalLM" or attention_bias,
            output_bias=architecture != "Qwen2ForCausalLM" and attention_bias,
            mlp_bias=data.get("mlp_bias", False),
            query_key_norm=is_gemma or architecture == "Qwen3ForCausalLM",
            norms_around=is_gemma,
            activation=ACTIVATIONS[activation_of(data)],
            attention_scale=(data["query_pre_attn_scalar"] if is_gemma else head_dim) ** -0.5,
            embedding_scale=data["hidden_size"] ** 0.5 if is_gemma else 1.0,
            dtype=data.get("dtype") or data.get("torch_dtype") or "float32",
            eos_token_ids=token_ids(data.get("eos_token_id")) | token_ids((generation or {}).get("eos_token_id")),
        )


def refuse_variants(data: Mapping[str, Any]) -> None:
    """What the engine would compute wrongly is refused by name.

    Raises:
        StartRefused: kind bad_config.
    """
    for key, what in UNSUPPORTED.items():
        if data.get(key):
            raise unsupported(f"{what} ({key} {data[key]})", "one without would run")
    if activation_of(data) not in ACTIVATIONS:
        raise unsupported(f"activation {activation_of(data)}", "known ones are " + ", ".join(ACTIVATIONS))
    if data.get("quantization_config"):
        method = data["quantization_config"].get("quant_method", "unnamed")
        raise unsupported(
            f"a quantised checkpoint ({method})", "give one in bf16, fp16 or fp32; --quantization quantises at start-up"
        )


def activation_of(data: Mapping[str, Any]) -> str:
    return str(data.get("hidden_activation") or data.get("hidden_act") or "silu")


def token_ids(value: int | list[int] | None) -> frozenset[int]:
    if value is None:
        return frozenset()
    return frozenset(value if isinstance(value, list) else [value])
