"""Decoder of the Llama family: RMSNorm, rotary attention with shared key heads, gated MLP. What differs between
architectures is a weight that is there or not, or a number in the config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels import Attention, Kernels, Linear
from engine.model_config import ModelConfig

if TYPE_CHECKING:
    from engine.batch import Batch

__all__ = ["Layer", "Model"]


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one decoder layer; q, k, v and gate, up are fused along their output rows."""

    input_norm: Tensor
    qkv: Linear
    attention: Attention
    output: Linear
    added_attention_norm: Tensor | None
    "Gemma: what attention and MLP add is normalised once more."
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear
    added_mlp_norm: Tensor | None

    @property
    def linears(self) -> tuple[Linear, ...]:
        return self.qkv, self.output, self.gate_up, self.down


class Model:
    """Weights, and the pass from token ids to logits."""

    def __init__(
        self, config: ModelConfig, kernels: Kernels, embedding: Tensor, layers: list[Layer], norm: Tensor, head: Linear
    ) -> None:
        self.config = config
        self.kernels = kernels
        self.layers = layers
        self.head = head
        self._embedding = embedding
        self._norm = norm
        # Rounded as the embedding is, which the checkpoint was trained with.
        self._scale = float(torch.tensor(config.embedding_scale, dtype=embedding.dtype))

    @property
    def dtype(self) -> torch.dtype:
        return self._embedding.dtype

    @property
    def device(self) -> torch.device:
        return self._embedding.device

    def forward(self, batch: Batch, plan: Any, cache: Any) -> Tensor:
        """Logits of the rows `batch.wanted`, [wanted, vocab_size] in the model's dtype.

        The output head is the largest matrix and only the tokens that are wanted need it; after its attention, the last
        layer needs them alone too.

        Args:
            plan: `kernels.plan(batch)`.
            cache: `kernels.cache(...)`; the keys and values of the batch are written to it.
        """
        kernels, eps, activation = self.kernels, self.config.rms_norm_eps, self.config.activation
        hidden = F.embedding(batch.token_ids, self._embedding)
        if self._scale != 1:
            hidden.mul_(self._scale)
        for layer in self.layers:
            qkv = kernels.project(hidden, layer.input_norm, eps, layer.qkv)
            seen = kernels.attend(layer.attention, plan, cache, qkv)
            if layer is self.layers[-1]:
                if not len(batch.wanted):
                    return hidden.new_empty(0, self.config.vocab_size)
                hidden, seen = hidden.index_select(0, batch.wanted), seen.index_select(0, batch.wanted)
            hidden = kernels.add_projection(hidden, seen, layer.output, layer.added_attention_norm, eps)
            inner = kernels.project_gated(hidden, layer.mlp_norm, eps, layer.gate_up, activation)
            hidden = kernels.add_projection(hidden, inner, layer.down, layer.added_mlp_norm, eps)
        return kernels.project(hidden, self._norm, eps, self.head)
