"""ModelShape: what a token costs in memory and in reading, from a model's config.json and headers or its GGUF's."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.errors import UserError
from tools.profile.checkpoint import Checkpoint

__all__ = ["ModelShape", "read_shape", "whole_number"]

_EVERY_TOKEN = frozenset({"full_attention", "attention"})
_LAST_TOKENS = frozenset({"sliding_attention", "chunked_attention"})
"What config.json's `layer_types` calls layers that hold keys and values of all tokens, and of the last ones."
_ONE_KV_HEAD_EACH = frozenset({"llama", "gpt2", "gpt_neox", "opt", "phi", "gptj", "codegen", "stablelm"})
"Model types that have as many KV heads as heads where config.json names none."
_EXPERTS = ("expert", "moe_")
_RECURRENT = ("ssm", "mamba", "linear_num_", "rwkv", "recurrent")
"Parts of the keys of config.json by which models are known that a token passes only a part of, and that hold a state."


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Geometry of a decoder. What isn't told for certain is None, or the least that it can be: bounds stay bounds."""

    weights_bytes: int
    "Of its files."
    vocabulary: int
    hidden: int
    feed_forward: int
    key_values: int
    "Numbers in one token's keys in one layer; in the compressed state that stands for both, where there is one."
    value_values: int
    "In its values."
    windows: tuple[tuple[int, int], ...]
    "(most context tokens that a layer sees, 0 for all; layers of that kind), of the layers with attention."
    context_tokens: int
    "The longest sequence that the model was made for; 0: it isn't stated."
    stored: Checkpoint | None
    "Parameters by their purpose; None of a mixture of experts, and wherever a token doesn't pass all of them."
    dtype: str = ""
    "Number format of the parameters in torch's words; empty: it isn't stated."
    is_quantized: bool = False

    @property
    def layers(self) -> int:
        """With attention."""
        return sum(count for _, count in self.windows)

    def token_bytes(self, key_bytes: float, value_bytes: float | None = None) -> float:
        """Keys and values of one token in one layer, at so many bytes a number; None: values as keys."""
        return self.key_values * key_bytes + self.value_values * (key_bytes if value_bytes is None else value_bytes)


def read_shape(model: Path) -> ModelShape | None:
    """The shape of the folder or GGUF file `model`; None where it doesn't tell enough.

    Raises:
        UserError: no config.json, or a file that can't be read.
    """
    if model.is_file():
        from tools.profile.gguf_shape import gguf_shape  # imports numpy

        return gguf_shape(model)
    return _folder_shape(model)


def whole_number(values: Mapping[str, Any], *names: str) -> int | None:
    """The first of `names` that holds a whole number in `values`."""
    found = (values.get(name) for name in names)
    return next((value for value in found if isinstance(value, int) and not isinstance(value, bool)), None)


def _folder_shape(folder: Path) -> ModelShape | None:
    place = folder / "config.json"
    try:
        whole = json.loads(place.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{place}: expected the model's configuration, found none that can be read: {error}") from None
    nested = whole.get("text_config")
    config: Mapping[str, Any] = whole if nested is None else nested
    layers, hidden = (
        whole_number(config, *names)
        for names in (("num_hidden_layers", "n_layer"), ("hidden_size", "n_embd", "d_model"))
    )
    pair = _keys_and_values(config, hidden)
    if layers is None or hidden is None or pair is None:
        return None
    stated = [place[key] for place in (config, whole) for key in ("dtype", "torch_dtype") if place.get(key)]
    return ModelShape(
        weights_bytes=sum(file.stat().st_size for file in _weight_files(folder)),
        vocabulary=whole_number(config, "vocab_size") or 0,
        hidden=hidden,
        feed_forward=whole_number(config, "intermediate_size", "n_inner") or 0,
        key_values=pair[0],
        value_values=pair[1],
        windows=_windows(config, layers),
        context_tokens=whole_number(config, "max_position_embeddings", "n_positions") or 0,
        stored=_stored(folder, config) if nested is None else None,  # the rest of such a model sees pictures or sound
        dtype=str(stated[0]) if stated else "",
        is_quantized="quantization_config" in whole,
    )


def _keys_and_values(config: Mapping[str, Any], hidden: int | None) -> tuple[int, int] | None:
    """Numbers in one token's keys and in its values; multi-head latent attention holds one compressed state."""
    latent, heads = whole_number(config, "kv_lora_rank"), whole_number(config, "num_attention_heads", "n_head")
    if latent is not None:
        return latent + (whole_number(config, "qk_rope_head_dim") or 0), 0
    kv_heads = whole_number(config, "num_key_value_heads", "num_kv_heads")
    if kv_heads is None and config.get("model_type") in _ONE_KV_HEAD_EACH:
        kv_heads = heads
    head_dim = whole_number(config, "head_dim") or (hidden // heads if hidden and heads else None)
    return (kv_heads * head_dim, kv_heads * head_dim) if kv_heads and head_dim else None


def _windows(config: Mapping[str, Any], layers: int) -> tuple[tuple[int, int], ...]:
    """A model that has a window and doesn't say in which layers has it in all: no bound is too high then."""
    window = whole_number(config, "sliding_window", "attention_chunk_size") or 0
    if config.get("use_sliding_window") is False:
        window = 0
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        sees = {**dict.fromkeys(_EVERY_TOKEN, 0), **dict.fromkeys(_LAST_TOKENS, window)}
        return tuple(sorted(Counter(sees[kind] for kind in kinds if kind in sees).items()))
    if _has_any(config, _RECURRENT):
        return ()  # which layers hold no keys and values isn't told
    return ((window, layers),)


def _stored(folder: Path, config: Mapping[str, Any]) -> Checkpoint | None:
    if _has_any(config, (*_EXPERTS, *_RECURRENT)):
        return None
    try:
        stored = Checkpoint.read(folder)
    except UserError:  # another format
        return None
    return stored if stored.head_parameters else None


def _has_any(config: Mapping[str, Any], parts: tuple[str, ...]) -> bool:
    return any(value and part in key for key, value in config.items() for part in parts)


def _weight_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin"))
