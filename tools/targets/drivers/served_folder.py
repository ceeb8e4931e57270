"""ServedFolder: a Hugging Face folder as an engine computes with it. Bounds, from its headers; no weight is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools.profile.model_shape import ModelShape, read_shape
from tools.profile.physics import ModelFacts
from tools.targets.knobs import Value

__all__ = ["ServedFolder"]

_WIDE = frozenset({"float", "float32"})
_INTEGER_GAIN = 2.0
"""Processors multiply numbers of 8 bits twice as fast as those of 16."""


@dataclass(frozen=True)
class ServedFolder:
    """vLLM and SGLang share checkpoints, and what their number formats are called."""

    folder: Path

    @cached_property
    def shape(self) -> ModelShape | None:
        """None where config.json doesn't tell enough."""
        return read_shape(self.folder)

    def weights_bytes(self, dtype: Value, quantization: Value) -> int:
        """In the formats that are asked for; as stored where the checkpoint is quantised itself."""
        shape = self.shape
        if shape is None:
            return sum(file.stat().st_size for file in self.folder.glob("*.safetensors"))
        if shape.is_quantized:
            return shape.weights_bytes
        stored = 4.0 if shape.dtype == "float32" else 2.0
        return int(shape.weights_bytes * _weight_bytes(dtype, quantization) / stored)

    def token_bytes(self, dtype: Value, kv_dtype: Value) -> int:
        """Keys and values of one token in all layers; 0 where the geometry isn't known."""
        shape = self.shape
        return int(shape.token_bytes(_cache_bytes(dtype, kv_dtype)) * shape.layers) if shape else 0

    def step_bytes(self, dtype: Value, tokens: int, sequences: int) -> int:
        """The widest layer's activations in a step of `tokens`, and the scores of one next token per sequence."""
        shape = self.shape
        if shape is None:
            return 0
        return int(
            2 * tokens * (shape.hidden + shape.feed_forward) * _value_bytes(dtype) + 4 * sequences * shape.vocabulary
        )

    def facts(
        self,
        dtypes: Iterable[Value],
        quantizations: Iterable[Value],
        kv_dtypes: Iterable[Value],
        guessed: int,
    ) -> ModelFacts | None:
        """What a token costs in the leanest of the formats that may be served.

        Args:
            guessed: most tokens that are guessed beside a step's own, and share its reading of weights and context.
        """
        shape = self.shape
        if shape is None or shape.stored is None:
            return None
        pairs = [(dtype, quantization) for dtype in dtypes for quantization in quantizations]
        value = min(_value_bytes(dtype) for dtype, _ in pairs)
        weight = min(_weight_bytes(*pair) for pair in pairs)
        stored = shape.stored
        # The output head keeps eight bits at the least.
        read = stored.token_parameters * weight + stored.head_parameters * min(value, max(weight, 1.0))
        cache = min(_cache_bytes(dtype, kv_dtype) for dtype, _ in pairs for kv_dtype in set(kv_dtypes))
        return ModelFacts(
            step_bytes=int(min(stored.step_bytes, read) if shape.is_quantized else read) // (1 + guessed),
            token_parameters=stored.token_parameters,
            head_parameters=stored.head_parameters,
            kv_bytes=int(shape.token_bytes(cache)) // (1 + guessed),
            kv_layers=shape.windows,
            arithmetic_gain=_INTEGER_GAIN if weight < value or shape.is_quantized else 1.0,
        )


def _value_bytes(dtype: Value) -> float:
    """`auto` serves checkpoints of 32 bits in 16."""
    return 4.0 if dtype in _WIDE else 2.0


def _weight_bytes(dtype: Value, quantization: Value) -> float:
    """The least that a weight takes: methods that don't name 8 bits have 4 or more."""
    if quantization == "none":
        return _value_bytes(dtype)
    return 1.0 if "8" in str(quantization) and "4" not in str(quantization) else 0.5


def _cache_bytes(dtype: Value, kv_dtype: Value) -> float:
    name = str(kv_dtype)
    if name == "auto":
        return _value_bytes(dtype)
    if name in ("bfloat16", "bf16", "float16"):
        return 2.0
    return 1.0 if "8" in name and "4" not in name else 0.25
