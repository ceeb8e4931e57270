# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"
"""PagedCache: keys and values in blocks, and how a kernel reads a run of tokens of one sequence."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kv_cache import KVLayout

__all__ = ["LOG2_E", "PagedCache", "load_tile", "pad_to_power_of_2"]

LOG2_E = 1.4426950408889634


def pad_to_power_of_2(value: int) -> int:
    return 1 << (value - 1).bit_length()


@dataclass(frozen=True, slots=True)
class PagedCache:
    """Keys and values of every layer; in fp8, with a scale for each token and key head."""

    layout: KVLayout
    layers: tuple[Tensor, ...]
    "Each [2 (key, value), num_kv_heads, num_blocks, block_size, head_dim]."
    scales: tuple[Tensor, ...] | None
    "Each [2, num_kv_heads, num_blocks · block_size] fp32: what a stored fp8 value is a multiple of."

    @classmethod
    def of(cls, layout: KVLayout, num_layers: int, dtype: torch.dtype, device: torch.device) -> PagedCache:
        """Zeroed: what was never written is masked, but a NaN there would survive the mask."""
        planes = (2, layout.num_kv_heads)
        shape = (*planes, layout.num_blocks, layout.block_size, layout.head_dim)
        layers = tuple(torch.zeros(shape, dtype=dtype, device=device) for _ in range(num_layers))
        if dtype != torch.float8_e4m3fn:
            return cls(layout, layers, None)
        slots = layout.num_blocks * layout.block_size
        scales = tuple(torch.zeros((*planes, slots), dtype=torch.float32, device=device) for _ in range(num_layers))
        return cls(layout, layers, scales)

    @property
    def num_bytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in (*self.layers, *(self.scales or ())))

    def scales_of(self, layer: int) -> Tensor:
        """The scales of `layer`; where there are none, a tensor that kernels ignore."""
        return self.layers[layer] if self.scales is None else self.scales[layer]


@triton.jit
def load_tile(
    plane,
    scales,
    rows,
    seen,
    HEAD_DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    SCALED: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Values [tile, PADDED_DIM] at `rows` (int64) of one (key or value, head) plane, and their scales [tile]."""
    dims = tl.arange(0, PADDED_DIM)
    pointers = plane + rows[:, None] * HEAD_DIM + dims[None, :]
    if HEAD_DIM != PADDED_DIM:
        if MASKED:
            values = tl.load(pointers, mask=seen[:, None] & (dims < HEAD_DIM)[None, :], other=0.0)
        else:
            values = tl.load(pointers, mask=(dims < HEAD_DIM)[None, :], other=0.0)
    elif MASKED:
        values = tl.load(pointers, mask=seen[:, None], other=0.0)
    else:
        values = tl.load(pointers)
    return values, tl.load(scales + rows, mask=seen, other=0.0) if SCALED else seen
