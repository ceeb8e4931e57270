# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"
"""activation(gate) · up of the MLP."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.protocol import Activation

__all__ = ["activate", "gated"]


@triton.jit
def activate(x, GELU: tl.constexpr):
    """SiLU, or GELU by its tanh approximation, of fp32 values."""
    if GELU:
        # (1 + tanh(u)) / 2 is sigmoid(2u).
        return x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    return x * tl.sigmoid(x)


@triton.jit
def gate_rows(x, out, WIDTH: tl.constexpr, TILE: tl.constexpr, GELU: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    columns = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = columns < WIDTH
    source = x + row * (2 * WIDTH) + columns
    gate = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(source + WIDTH, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * WIDTH + columns, (activate(gate, GELU) * up).to(out.dtype.element_ty), mask=inside)


def gated(x: Tensor, activation: Activation) -> Tensor:
    """`x` [tokens, 2 · width] (gate, then up; contiguous) → [tokens, width]."""
    tokens, width = x.shape[0], x.shape[1] // 2
    out = torch.empty((tokens, width), dtype=x.dtype, device=x.device)
    if tokens:
        gate_rows[-(-width // 1024), tokens](x, out, WIDTH=width, TILE=1024, GELU=activation == "gelu_tanh")
    return out
