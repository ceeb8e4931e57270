"""By which angles and how far attention looks: rotary settings and windows, in the spellings of config.json."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import StartRefused

__all__ = ["LinearScaling", "Llama3Scaling", "Rope", "YarnScaling", "layer_windows", "ropes_of", "unsupported"]


@dataclass(frozen=True, slots=True)
class LinearScaling:
    """All frequencies divided by one factor."""

    factor: float


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Llama 3.1's stretch of the low frequencies; the names are those of config.json."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True, slots=True)
class YarnScaling:
    """YaRN: low frequencies stretched, and scores sharpened through `attention_factor` on cosines and sines."""

    factor: float
    original_max_position_embeddings: int
    attention_factor: float
    beta_fast: float
    beta_slow: float
    truncate: bool


@dataclass(frozen=True, slots=True)
class Rope:
    """Base of the rotary frequencies, and their stretch for contexts longer than those of the training."""

    theta: float
    scaling: LinearScaling | Llama3Scaling | YarnScaling | None = None


def ropes_of(data: Mapping[str, Any], has_local: bool) -> tuple[Rope, Rope]:
    """Rotary settings of layers that see everything and of those with a window; the same one unless `has_local`.

    transformers 5 writes `rope_parameters`, by layer type where there are two; before, `rope_theta`, `rope_scaling` and
    Gemma 3's `rope_local_base_freq` stood side by side.

    Raises:
        StartRefused: kind bad_config; a rotary embedding that the engine doesn't have.
    """
    stated = data.get("rope_parameters") or {}
    if not has_local:
        rope = rope_of(stated or data.get("rope_scaling") or {}, data, data.get("rope_theta", 10_000.0))
        return rope, rope
    full, local = stated.get("full_attention") or data.get("rope_scaling") or {}, stated.get("sliding_attention") or {}
    return (
        rope_of(full, data, data.get("rope_theta", 1_000_000.0)),
        rope_of(local, data, data.get("rope_local_base_freq", 10_000.0)),
    )


def rope_of(rope: Mapping[str, Any], data: Mapping[str, Any], default_theta: float) -> Rope:
    theta = float(rope.get("rope_theta") or default_theta)
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if (rope.get("partial_rotary_factor") or data.get("partial_rotary_factor") or 1.0) != 1.0:
        raise unsupported("a partial rotary embedding", "only whole heads are rotated")
    if "mrope_section" in rope:
        raise unsupported("rotary positions in several dimensions (mrope_section)", "only text positions are known")
    if kind == "default":
        return Rope(theta)
    if kind == "linear":
        return Rope(theta, LinearScaling(rope["factor"]))
    original = rope.get("original_max_position_embeddings") or data["max_position_embeddings"]
    if kind == "llama3":
        return Rope(theta, Llama3Scaling(rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"], original))
    if kind != "yarn":
        raise unsupported(f"rope type {kind}", "known ones are default, linear, llama3 and yarn")
    factor = rope.get("factor") or data["max_position_embeddings"] / original
    return Rope(
        theta,
        YarnScaling(
            factor=factor,
            original_max_position_embeddings=original,
            attention_factor=rope.get("attention_factor") or yarn_attention_factor(rope, factor),
            beta_fast=rope.get("beta_fast") or 32,
            beta_slow=rope.get("beta_slow") or 1,
            truncate=rope.get("truncate", True),
        ),
    )


def yarn_attention_factor(rope: Mapping[str, Any], factor: float) -> float:
    """0.1 · ln(factor) + 1 (arXiv 2309.00071, eq. 22), or the ratio of two such numbers where both are weighed."""

    def grown(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0

    if rope.get("mscale") and rope.get("mscale_all_dim"):
        return grown(rope["mscale"]) / grown(rope["mscale_all_dim"])
    return grown(1.0)


def layer_windows(architecture: str, data: Mapping[str, Any]) -> tuple[int, ...]:
    """Window of each layer's attention, 0 where it sees everything.

    Mistral states one for all layers; Qwen only with `use_sliding_window`, from layer `max_window_layers` on, unless
    `layer_types` says which; Gemma 3 has every sixth layer see everything.

    Raises:
        StartRefused: kind bad_config; a type of layer that the engine doesn't have.
    """
    num_layers, window = int(data["num_hidden_layers"]), int(data.get("sliding_window") or 0)
    if architecture == "LlamaForCausalLM":
        return (0,) * num_layers
    if architecture == "MistralForCausalLM":
        return (window,) * num_layers
    if architecture.startswith("Qwen") and not data.get("use_sliding_window"):
        window = 0
    types = data.get("layer_types")
    if types is None and architecture.startswith("Qwen"):
        first = data.get("max_window_layers", 28)
        return tuple(window if index >= first else 0 for index in range(num_layers))
    if types is None:
        pattern = data.get("sliding_window_pattern", 6)
        return tuple(window if (index + 1) % pattern else 0 for index in range(num_layers))
    unknown = sorted(set(types) - {"full_attention", "sliding_attention"})
    if unknown:
        raise unsupported(f"layers of type {unknown[0]}", "known ones are full_attention and sliding_attention")
    if len(types) != num_layers:
        raise StartRefused("bad_config", f"config.json has {num_layers} layers but {len(types)} layer_types")
    return tuple(window if kind == "sliding_attention" else 0 for kind in types)


def unsupported(what: str, hint: str) -> StartRefused:
    return StartRefused("bad_config", f"the model has {what}, which the engine doesn't support; {hint}")
