"""Reading a checkpoint: safetensors files, whole or sharded, into a Model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import StartRefused
from engine.linear import Linear
from engine.model import Layer, Model
from engine.model_config import ModelConfig

__all__ = ["Checkpoint", "load_model"]


class Checkpoint:
    """Tensors by name, read from disk one at a time, converted to one dtype and device."""

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

    def tensor(self, name: str, *shape: int) -> Tensor:
        """The tensor `name`.

        Raises:
            StartRefused: kind bad_config where it is absent or its shape isn't `shape`.
        """
        if name not in self._owner:
            raise StartRefused("bad_config", f"the weights in {self._directory} lack {name}")
        tensor: Tensor = self._files[self._owner[name]].get_tensor(name)
        if tuple(tensor.shape) != shape:
            raise StartRefused(
                "bad_config", f"{name} in {self._directory} is {list(tensor.shape)}; config.json asks for {list(shape)}"
            )
        return tensor.to(device=self._device, dtype=self._dtype)


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
    directory: Path, config: ModelConfig, *, dtype: torch.dtype, device: torch.device, max_model_len: int
) -> Model:
    """The model in `directory`, ready to run.

    Raises:
        StartRefused: weights that are absent, unreadable or of another shape than config.json states.
    """
    checkpoint = Checkpoint(directory, dtype, device)
    embedding = checkpoint.tensor("model.embed_tokens.weight", config.vocab_size, config.hidden_size)
    layers = [load_layer(checkpoint, config, index) for index in range(config.num_layers)]
    norm = checkpoint.tensor("model.norm.weight", config.hidden_size)
    head = embedding
    if not config.tie_word_embeddings:
        head = checkpoint.tensor("lm_head.weight", config.vocab_size, config.hidden_size)
    return Model(config, embedding, layers, norm, Linear.of(head), max_model_len)


def load_layer(checkpoint: Checkpoint, config: ModelConfig, index: int) -> Layer:
    prefix = f"model.layers.{index}."
    hidden, inner = config.hidden_size, config.intermediate_size
    query_rows, kv_rows = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim

    def linear(names: dict[str, int], inputs: int, bias: bool) -> Linear:
        weight = torch.cat([checkpoint.tensor(f"{prefix}{name}.weight", rows, inputs) for name, rows in names.items()])
        if not bias:
            return Linear.of(weight)
        return Linear.of(weight, torch.cat([checkpoint.tensor(f"{prefix}{n}.bias", rows) for n, rows in names.items()]))

    qkv = {"self_attn.q_proj": query_rows, "self_attn.k_proj": kv_rows, "self_attn.v_proj": kv_rows}
    return Layer(
        input_norm=checkpoint.tensor(f"{prefix}input_layernorm.weight", hidden),
        qkv=linear(qkv, hidden, config.qkv_bias),
        output=linear({"self_attn.o_proj": hidden}, query_rows, config.output_bias),
        post_attention_norm=checkpoint.tensor(f"{prefix}post_attention_layernorm.weight", hidden),
        gate_up=linear({"mlp.gate_proj": inner, "mlp.up_proj": inner}, hidden, config.mlp_bias),
        down=linear({"mlp.down_proj": hidden}, inner, config.mlp_bias),
    )
