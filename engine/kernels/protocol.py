"""Kernels: the operations a decoder layer is made of. Each device has its own; the model knows only this protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from engine.batch import Batch
    from engine.kv_cache import KVLayout

__all__ = ["Activation", "Attention", "Bits", "Draw", "Kernels", "Linear"]

Draw = Callable[["Tensor", "Tensor", "Tensor"], "Tensor"]
"""Token ids [n] from logits [n, vocab_size], temperatures [n] (0: the most likely) and uniform numbers [n]."""

Activation = Literal["silu", "gelu_tanh"]
Bits = Literal[16, 8, 4]


@dataclass(frozen=True, slots=True)
class Attention:
    """What one layer's attention needs beside its input."""

    layer: int
    rotary: Tensor
    "[max_model_len, 2, head_dim / 2] fp32: cosines, sines. x1·c - x2·s, x2·c + x1·s for the halves x1, x2 of a head."
    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float
    window: int = 0
    "0: all that precedes; else the last `window` tokens, itself included."
    query_norm: Tensor | None = None
    "[head_dim]: weight of an RMSNorm on each query head before it is rotated."
    key_norm: Tensor | None = None
    eps: float = 1e-6


class Linear(Protocol):
    """y = x Wᵀ + b over a weight laid out for the device."""

    @property
    def out_features(self) -> int: ...

    @property
    def num_bytes(self) -> int:
        """Bytes its weight and bias hold."""

    def __call__(self, x: Tensor) -> Tensor:
        """[tokens, in] → [tokens, out]"""


class Kernels(Protocol):
    """The operations a decoder layer is made of, for one device. `hidden` is [tokens, hidden_size]."""

    @property
    def draw(self) -> Draw | None:
        """A way of the device's own to draw tokens; None where PyTorch's operations do."""

    def linear(self, weight: Tensor, bias: Tensor | None = None, bits: Bits = 16) -> Linear:
        """A Linear over `weight` [out, in]; with fewer than 16 bits the weight alone is quantised."""

    def cache(self, layout: KVLayout, num_layers: int, dtype: torch.dtype, device: torch.device) -> Any:
        """Room for the keys and values of `layout.num_blocks` blocks in every layer; it has `num_bytes`. What an
        earlier owner left in a block, a NaN even, must not reach the next."""

    def plan(self, batch: Batch) -> Any:
        """How the rows of `batch` attend; made once per step, the same for every layer."""

    def norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """RMSNorm over the last dimension. `weight` is fp32 or x's dtype."""

    def project(self, hidden: Tensor, norm: Tensor, eps: float, linear: Linear) -> Tensor:
        """linear(rms_norm(hidden))"""

    def project_gated(self, hidden: Tensor, norm: Tensor, eps: float, linear: Linear, activation: Activation) -> Tensor:
        """activation(gate) · up, where `linear` yields the rows of gate, then those of up."""

    def attend(self, attention: Attention, plan: Any, cache: Any, qkv: Tensor) -> Tensor:
        """Normalise, rotate and store keys and values, and let the queries look at all they may see.

        Args:
            qkv: [tokens, (num_heads + 2 · num_kv_heads) · head_dim], unrotated: queries, keys, values.

        Returns:
            [tokens, num_heads · head_dim]
        """

    def add_projection(
        self, hidden: Tensor, x: Tensor, linear: Linear, norm: Tensor | None = None, eps: float = 0.0
    ) -> Tensor:
        """hidden + linear(x), or hidden + rms_norm(linear(x)) with `norm`. May work in place and return `hidden`."""
