"""TorchKernels: the operations of a decoder layer in plain PyTorch, for any device; the oracle of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.protocol import Activation, Attention, Bits, Draw, Linear
from engine.kernels.torch_attention import TorchPlan, attend
from engine.kernels.torch_linear import TorchLinear
from engine.kernels.torch_quantised import Int4Linear, Int8Linear
from engine.kv_cache import KVCache, KVLayout

if TYPE_CHECKING:
    from engine.batch import Batch

__all__ = ["TorchKernels", "rms_norm", "rotate"]


class TorchKernels:
    """Kernels without a kernel of our own. It has no state."""

    draw: Draw | None = None

    def linear(self, weight: Tensor, bias: Tensor | None = None, bits: Bits = 16) -> Linear:
        if bits == 16:
            return TorchLinear.of(weight, bias)
        return Int8Linear.of(weight, bias) if bits == 8 else Int4Linear.of(weight, bias)

    def cache(self, layout: KVLayout, num_layers: int, dtype: torch.dtype, device: torch.device) -> KVCache:
        return KVCache(layout, num_layers, dtype, device)

    def plan(self, batch: Batch) -> TorchPlan:
        return TorchPlan(batch)

    def norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return rms_norm(x, weight, eps)

    def project(self, hidden: Tensor, norm: Tensor, eps: float, linear: Linear) -> Tensor:
        return linear(rms_norm(hidden, norm, eps))

    def project_gated(self, hidden: Tensor, norm: Tensor, eps: float, linear: Linear, activation: Activation) -> Tensor:
        gate, up = linear(rms_norm(hidden, norm, eps)).chunk(2, -1)
        return (F.silu(gate) if activation == "silu" else F.gelu(gate, approximate="tanh")).mul_(up)

    def attend(self, attention: Attention, plan: TorchPlan, cache: KVCache, qkv: Tensor) -> Tensor:
        num_heads, num_kv_heads = attention.num_heads, attention.num_kv_heads
        heads = qkv.view(-1, num_heads + 2 * num_kv_heads, attention.head_dim)
        turning, values = heads[:, :-num_kv_heads], heads[:, -num_kv_heads:]
        if attention.query_norm is not None and attention.key_norm is not None:
            queries = rms_norm(turning[:, :num_heads], attention.query_norm, attention.eps)
            keys = rms_norm(turning[:, num_heads:], attention.key_norm, attention.eps)
            turning = torch.cat((queries, keys), 1)
        turned = rotate(turning, *plan.rotation(attention.rotary, qkv.dtype))
        return attend(attention, plan, cache, turned[:, :num_heads], torch.cat((turned[:, num_heads:], values), 1))

    def add_projection(
        self, hidden: Tensor, x: Tensor, linear: Linear, norm: Tensor | None = None, eps: float = 0.0
    ) -> Tensor:
        added = linear(x)
        return hidden.add_(added if norm is None else rms_norm(added, norm, eps))


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm over the last dimension. A weight finer than `x` is applied before rounding, as Gemma does."""
    if weight.dtype == x.dtype:
        return F.rms_norm(x, weight.shape, weight, eps)
    return F.rms_norm(x.to(weight.dtype), weight.shape, weight, eps).to(x.dtype)


def rotate(heads: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """`heads` [tokens, heads, head_dim] turned to their positions; `cosines` and `sines` are [tokens, 1, head_dim], the
    first half of the sines negated."""
    return torch.addcmul(heads * cosines, heads.roll(heads.shape[-1] // 2, -1), sines)
