"""Llama-family decoder: RMSNorm, rotary attention with shared key heads, gated MLP. Qwen2 adds a bias to q, k and v."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.attention import AttentionPlan, attend
from engine.kv_cache import KVCache
from engine.linear import Linear
from engine.model_config import ModelConfig
from engine.rope import rotary_table, rotate

__all__ = ["Layer", "Model"]


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one decoder layer; q, k, v and gate, up are fused along their output rows."""

    input_norm: Tensor
    qkv: Linear
    output: Linear
    post_attention_norm: Tensor
    gate_up: Linear
    down: Linear


class Model:
    """Weights, and the pass from token ids to logits."""

    def __init__(
        self,
        config: ModelConfig,
        embedding: Tensor,
        layers: list[Layer],
        norm: Tensor,
        head: Linear,
        max_model_len: int,
    ) -> None:
        self.config = config
        self._embedding = embedding
        self._layers = layers
        self._norm = norm
        self._head = head
        self._rotary = rotary_table(config, max_model_len, embedding.dtype).to(embedding.device)

    @property
    def dtype(self) -> torch.dtype:
        return self._embedding.dtype

    @property
    def device(self) -> torch.device:
        return self._embedding.device

    def forward(
        self, token_ids: Tensor, positions: Tensor, plan: AttentionPlan, cache: KVCache, wanted: Tensor
    ) -> Tensor:
        """Logits of the rows `wanted`: the output head is the largest matrix, and only last tokens need it.

        Args:
            token_ids, positions: [tokens] int64; tokens of all sequences of the batch, one after the other.
            plan: how those rows attend.
            wanted: [n] int64, rows to return.

        Returns:
            [n, vocab_size] in the model's dtype.
        """
        config = self.config
        query_heads, kv_heads, head_dim = config.num_heads, config.num_kv_heads, config.head_dim
        rotated_heads = query_heads + kv_heads
        cosines, sines = self._rotary.index_select(0, positions).chunk(2, 1)
        hidden = F.embedding(token_ids, self._embedding)
        for index, layer in enumerate(self._layers):
            normed = self._normalise(hidden, layer.input_norm)
            heads = layer.qkv(normed).view(-1, rotated_heads + kv_heads, head_dim)
            rotated = rotate(heads[:, :rotated_heads], cosines, sines)
            kv = torch.cat((rotated[:, query_heads:], heads[:, rotated_heads:]), 1)
            seen = attend(plan, cache, index, rotated[:, :query_heads], kv)
            hidden = hidden + layer.output(seen)
            gate, up = layer.gate_up(self._normalise(hidden, layer.post_attention_norm)).chunk(2, -1)
            hidden = hidden + layer.down(F.silu(gate).mul_(up))
        if not len(wanted):
            return hidden.new_empty(0, config.vocab_size)
        return self._head(self._normalise(hidden.index_select(0, wanted), self._norm))

    def _normalise(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (self.config.hidden_size,), weight, self.config.rms_norm_eps)
