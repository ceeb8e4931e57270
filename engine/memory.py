"""What a configuration needs of memory, in closed form: for the refusal at start-up and the tuner's feasibility."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from engine.knobs import EngineKnobs
from engine.model_config import ModelConfig

__all__ = ["BYTES_PER_VALUE", "GROUP_TOKENS", "INT4_GROUP", "MemoryPlan", "plan_memory"]

BYTES_PER_VALUE: Mapping[str, int] = MappingProxyType({"bf16": 2, "fp16": 2, "fp32": 4})

GROUP_TOKENS = 65536
"""Most context tokens, padding included, that attention gathers at once for sequences with one new token each."""

INT4_GROUP = 32
"""Consecutive inputs of a product that share a scale and a zero, where its weight has four bits."""

OVERHEAD_BYTES: Mapping[str, int] = MappingProxyType({"cpu": 450 << 20, "cuda": 700 << 20})
"""Interpreter, libraries, tokenizer and thread pools (cpu, measured resident); context and workspaces (cuda)."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes on the device that computes, by what needs them."""

    weights_bytes: int
    kv_cache_bytes: int
    activation_bytes: int
    "Peak within one step of max_num_batched_tokens tokens and max_num_seqs sequences."
    overhead_bytes: int
    parts: Mapping[str, int]
    "What the sums above are made of, in bytes."

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.kv_cache_bytes + self.activation_bytes + self.overhead_bytes


def plan_memory(model: ModelConfig, knobs: EngineKnobs, *, prepacked: bool = True) -> MemoryPlan:
    """What `knobs` need with `model`. Unresolved knobs are taken at their most expensive.

    Attention gathers the keys and values of the sequences it computes together, padded to at most GROUP_TOKENS, for one
    layer at a time; the mask of a prompt chunk grows with chunk times context. A quantised weight is restored for as
    long as a product with many rows takes.

    Args:
        prepacked: whether the CPU has weights laid out anew, so that a tied output head is a second copy.
    """
    size = BYTES_PER_VALUE.get(knobs.dtype, 4 if model.dtype == "float32" or knobs.device == "cpu" else 2)
    if knobs.dtype == "auto" and model.dtype == "bfloat16":
        size = 2
    max_len = knobs.max_model_len or model.max_position_embeddings
    tokens, sequences = knobs.max_num_batched_tokens, knobs.max_num_seqs
    capacity = knobs.kv_cache_tokens // knobs.block_size * knobs.block_size
    query_width, kv_width = model.num_heads * model.head_dim, 2 * model.num_kv_heads * model.head_dim

    weights = weight_parts(model, knobs, size, max_len, prepacked and knobs.device == "cpu")
    # In fp8 each token and key head has an fp32 scale of its own.
    kv_token = kv_width + 2 * model.num_kv_heads * 4 if knobs.kv_cache_dtype == "fp8" else kv_width * size
    kv_cache = capacity * kv_token * model.num_layers
    chunk = min(tokens, max_len)
    layer = tokens * (3 * model.hidden_size + 3 * query_width + 3 * kv_width + 3 * model.intermediate_size) * size
    together = min(sequences * max_len, max(GROUP_TOKENS, max_len))
    gathered = together * kv_width * size
    scores = max(together * (2 * model.num_heads + model.num_kv_heads), chunk * max_len) * size
    logits = sequences * model.vocab_size * (size + 3 * 4)
    activations = {"layer": layer, "gathered_kv": gathered, "scores": scores, "logits": logits}
    if knobs.quantization != "none":
        largest = max(rows * columns for rows, columns, _ in model.linear_shapes)
        activations["restored_weight"] = max(largest, model.vocab_size * model.hidden_size) * size
    overhead = OVERHEAD_BYTES[knobs.device]
    return MemoryPlan(
        weights_bytes=sum(weights.values()),
        kv_cache_bytes=kv_cache,
        activation_bytes=sum(activations.values()),
        overhead_bytes=overhead,
        parts=MappingProxyType({**weights, "kv_cache": kv_cache, **activations, "overhead": overhead}),
    )


def weight_parts(model: ModelConfig, knobs: EngineKnobs, size: int, max_len: int, prepacked: bool) -> dict[str, int]:
    """Bytes of what is loaded once. The embedding is never quantised, the output head to eight bits at the least."""
    head_quantization = "none" if knobs.quantization == "none" else "int8"
    head = linear_bytes(model.vocab_size, model.hidden_size, size, head_quantization)
    is_shared = model.tie_word_embeddings and head_quantization == "none" and not prepacked
    per_layer = sum(
        linear_bytes(rows, columns, size, knobs.quantization) + bias * rows * size
        for rows, columns, bias in model.linear_shapes
    )
    ropes = {model.local_rope if window else model.rope for window in model.windows}
    return {
        "embedding": model.vocab_size * model.hidden_size * size,
        "layers": model.num_layers * per_layer,
        "norms": model.num_norm_weights * (4 if model.norms_around else size),
        "output_head": 0 if is_shared else head,
        "rotary_tables": len(ropes) * max_len * model.head_dim * 4,
    }


def linear_bytes(rows: int, columns: int, size: int, quantization: str) -> int:
    """Bytes of a weight: with int8 a scale for each row, with int4 a scale and a zero for each group of inputs."""
    if quantization == "none":
        return rows * columns * size
    if quantization == "int8":
        return rows * columns + rows * size
    return rows * columns // 2 + rows * (columns // INT4_GROUP) * 2 * size
