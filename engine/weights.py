"""Reading a checkpoint: safetensors files, whole or sharded, into a Model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import StartRefused
from engine.kernels import Attention, Bits, Kernels, Linear
from engine.model import Layer, Model
from engine.model_config import ModelConfig
from engine.rope import rotary_table

__all__ = ["BITS", "Checkpoint", "load_model"]

BITS: dict[str, Bits] = {"none": 16, "int8": 8, "int4": 4}
"""Bits of a weight by the name of its quantisation; 16 stands for the dtype of the model, whatever that is."""

ROOTS = ("model.", "language_model.model.", "model.language_model.")
"""What the names of a text decoder begin with, alone or within a model that also sees."""


class Checkpoint:
    """Tensors by name, mapped from disk and read one at a time, converted to one dtype and device."""

    def __init__(self, directory: Path, dtype: torch.dtype, device: torch.device) -> None:
        self._directory = directory
        self._dtype = dtype
        self._device = device
        self._files: dict[str, Any] = {}
        try:
            for path in shards(directory):
                self._files[path.name] = safe_open(path, framework="pt")
        except (SafetensorError, OSError) as error:
            raise StartRefused("model_missing", f"can't read the weights in {directory}: {error}") from error
        self._owner = {name: file for file, reader in self._files.items() for name in reader.keys()}  # noqa: SIM118
        present = [root for root in ROOTS if f"{root}embed_tokens.weight" in self._owner]
        self._root = present[0] if present else ROOTS[0]

    def tensor(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """The tensor `name` of the decoder, or that of the output head where it begins with lm_head.

        Raises:
            StartRefused: kind bad_config where it is absent or its shape isn't `shape`.
        """
        full = name if name.startswith("lm_head") else self._root + name
        if full not in self._owner:
            raise StartRefused("bad_config", f"the weights in {self._directory} lack {full}")
        tensor: Tensor = self._files[self._owner[full]].get_tensor(full)
        if tuple(tensor.shape) != shape:
            raise StartRefused(
                "bad_config", f"{full} in {self._directory} is {list(tensor.shape)}; config.json asks for {list(shape)}"
            )
        return tensor.to(device=self._device, dtype=dtype or self._dtype)


def shards(directory: Path) -> list[Path]:
    """The files an index names, or every safetensors file where there is no index.

    Raises:
        StartRefused: kind model_missing; a shard that the index names isn't there.
    """
    index = directory / "model.safetensors.index.json"
    if not index.is_file():
        return sorted(directory.glob("*.safetensors"))
    names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    for name in names:
        if not (directory / name).is_file():
            raise StartRefused("model_missing", f"{index} names {name}, which isn't there")
    return [directory / name for name in names]


def load_model(
    directory: Path,
    config: ModelConfig,
    *,
    kernels: Kernels,
    dtype: torch.dtype,
    device: torch.device,
    max_model_len: int,
    quantization: str = "none",
) -> Model:
    """The model in `directory`, ready to run; its products' weights quantised where `quantization` isn't none.

    Raises:
        StartRefused: weights that are absent, unreadable or of another shape than config.json states.
    """
    reader = LayerReader(Checkpoint(directory, dtype, device), config, kernels, BITS[quantization])
    tables = {rope: rotary_table(rope, config.head_dim, max_model_len).to(device) for rope in reader.ropes}
    embedding = reader.checkpoint.tensor("embed_tokens.weight", config.vocab_size, config.hidden_size)
    layers = [reader.layer(index, tables[reader.rope(index)], max_model_len) for index in range(config.num_layers)]
    head = embedding
    if not config.tie_word_embeddings:
        head = reader.checkpoint.tensor("lm_head.weight", config.vocab_size, config.hidden_size)
    # Eight bits at the least: the head alone decides between tokens that are nearly as likely.
    head_bits: Bits = 16 if reader.bits == 16 else 8
    norm = reader.norm("norm", config.hidden_size)
    return Model(config, kernels, embedding, layers, norm, kernels.linear(head, None, head_bits))


class LayerReader:
    """One layer after the other out of a checkpoint, its weights laid out by `kernels`."""

    def __init__(self, checkpoint: Checkpoint, config: ModelConfig, kernels: Kernels, bits: Bits) -> None:
        self.checkpoint = checkpoint
        self.bits = bits
        self._config = config
        self._kernels = kernels

    @property
    def ropes(self) -> set[Any]:
        return {self.rope(index) for index in range(self._config.num_layers)}

    def rope(self, index: int) -> Any:
        return self._config.local_rope if self._config.windows[index] else self._config.rope

    def norm(self, name: str, width: int) -> Tensor:
        """Weight of an RMSNorm. Gemma's is stored less one, and one is added before rounding."""
        if self._config.norms_around:
            return self.checkpoint.tensor(f"{name}.weight", width, dtype=torch.float32) + 1
        return self.checkpoint.tensor(f"{name}.weight", width)

    def linear(
        self, prefix: str, names: tuple[str, ...], shape: tuple[int, int, bool], rows: tuple[int, ...]
    ) -> Linear:
        """The products `names` of `rows` rows each as one."""
        _, columns, has_bias = shape
        read = self.checkpoint.tensor
        parts = [read(f"{prefix}{name}.weight", count, columns) for name, count in zip(names, rows, strict=True)]
        biases = [read(f"{prefix}{name}.bias", count) for name, count in zip(names, rows, strict=True) if has_bias]
        weight = torch.cat(parts) if len(parts) > 1 else parts[0]
        return self._kernels.linear(weight, torch.cat(biases) if has_bias else None, self.bits)

    def layer(self, index: int, rotary: Tensor, max_model_len: int) -> Layer:
        config, prefix = self._config, f"layers.{index}."
        hidden, inner, head_dim = config.hidden_size, config.intermediate_size, config.head_dim
        kv_rows = config.num_kv_heads * head_dim
        qkv, output, gate_up, down = config.linear_shapes
        window = config.windows[index]
        attention = Attention(
            layer=index,
            rotary=rotary,
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=head_dim,
            scale=config.attention_scale,
            window=window if window < max_model_len else 0,
            query_norm=self.norm(f"{prefix}self_attn.q_norm", head_dim) if config.query_key_norm else None,
            key_norm=self.norm(f"{prefix}self_attn.k_norm", head_dim) if config.query_key_norm else None,
            eps=config.rms_norm_eps,
        )
        around = config.norms_around
        after_attention = self.norm(f"{prefix}post_attention_layernorm", hidden)
        qkv_names = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
        return Layer(
            input_norm=self.norm(f"{prefix}input_layernorm", hidden),
            qkv=self.linear(prefix, qkv_names, qkv, (config.num_heads * head_dim, kv_rows, kv_rows)),
            attention=attention,
            output=self.linear(prefix, ("self_attn.o_proj",), output, (hidden,)),
            added_attention_norm=after_attention if around else None,
            mlp_norm=self.norm(f"{prefix}pre_feedforward_layernorm", hidden) if around else after_attention,
            gate_up=self.linear(prefix, ("mlp.gate_proj", "mlp.up_proj"), gate_up, (inner, inner)),
            down=self.linear(prefix, ("mlp.down_proj",), down, (hidden,)),
            added_mlp_norm=self.norm(f"{prefix}post_feedforward_layernorm", hidden) if around else None,
        )
