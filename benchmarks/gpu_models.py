"""Models of known shapes with random weights, made where they run: no download, no disk."""

from __future__ import annotations

import dataclasses
import zlib
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from engine.core import Engine
from engine.kernels.choice import choose_kernels
from engine.knobs import EngineKnobs
from engine.model_config import ModelConfig
from engine.resolve import TORCH_DTYPES, resolve
from engine.weights import load_model

__all__ = ["SHAPES", "random_engine", "shape"]

SHAPES: dict[str, tuple[int, int, int, int, int, bool]] = {
    "Qwen3-0.6B": (1024, 3072, 28, 16, 8, True),
    "Qwen3-1.7B": (2048, 6144, 28, 16, 8, True),
    "Qwen3-8B": (4096, 12288, 36, 32, 8, False),
    "tiny": (64, 128, 2, 4, 2, True),
}
"""hidden_size, intermediate_size, layers, heads, key heads, tied head."""


def shape(name: str) -> dict[str, Any]:
    """config.json of the model `name`."""
    hidden, inner, layers, heads, kv_heads, tied = SHAPES[name]
    tiny = name == "tiny"
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": 10240 if tiny else 151936,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": 16 if tiny else 128,
        "max_position_embeddings": 40960,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": tied,
        "dtype": "bfloat16",
    }


class RandomCheckpoint:
    """Stands where `engine.weights.Checkpoint` does; a name always yields the same values on one device."""

    def __init__(self, directory: Path, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self._device = dtype, device

    def tensor(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        generator = torch.Generator(self._device).manual_seed(zlib.crc32(name.encode()))
        values = torch.randn(shape, generator=generator, device=self._device, dtype=torch.float32)
        if len(shape) == 1:
            values = 1 + values / 10
        else:
            # Inputs of about 1 give outputs of about 1, so that layers and positions matter to the answer.
            values *= 0.02 if "embed" in name else shape[1] ** -0.5
        return values.to(dtype or self._dtype)


def random_engine(name: str, **knobs: Any) -> Engine:
    """An engine over the model `name`, with these knobs."""
    config = ModelConfig.from_json(shape(name))
    resolved = resolve(EngineKnobs(**knobs), config)
    kernels_name, kernels = choose_kernels(resolved, config, print)
    resolved = dataclasses.replace(resolved, kernels=kernels_name)
    with patch("engine.weights.Checkpoint", RandomCheckpoint):
        model = load_model(
            Path(),
            config,
            kernels=kernels,
            dtype=TORCH_DTYPES[resolved.dtype],
            device=torch.device(resolved.device),
            max_model_len=resolved.max_model_len,
            quantization=resolved.quantization,
        )
    return Engine(model, resolved)
