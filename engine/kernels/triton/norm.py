# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"
"""RMSNorm of rows: alone, added to a residual, or as fp8 with a scale per row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.triton.paged import pad_to_power_of_2
from engine.kernels.triton.rotary_store import LARGEST_FP8

__all__ = ["add_norm", "quantise", "rms_norm", "rms_norm_quantised"]


@triton.jit
def norm_rows(
    x,  # [rows, WIDTH]
    weight,  # [WIDTH]
    residual,  # [rows, WIDTH]
    out,  # [rows, WIDTH]
    scales,  # [rows] fp32
    eps,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    NORM: tl.constexpr,
    ADD: tl.constexpr,
    SCALED: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, PADDED)
    inside = columns < WIDTH
    values = tl.load(x + row * WIDTH + columns, mask=inside, other=0.0).to(tl.float32)
    if NORM:
        values = values * tl.rsqrt(tl.sum(values * values, 0) / WIDTH + eps)
        values = values * tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        values += tl.load(residual + row * WIDTH + columns, mask=inside, other=0.0).to(tl.float32)
    if SCALED:
        factor = tl.maximum(tl.max(tl.abs(values), 0), 1.0e-12) / LARGEST_FP8
        values = values / factor
        tl.store(scales + row, factor)
    tl.store(out + row * WIDTH + columns, values.to(out.dtype.element_ty), mask=inside)


def launch(
    x: Tensor, weight: Tensor | None, residual: Tensor | None, out: Tensor, scales: Tensor | None, eps: float
) -> None:
    """One program per row: the widest hidden states (16384) still fit into its registers."""
    width = x.shape[-1]
    padded = pad_to_power_of_2(width)
    rows = x.numel() // width
    if rows:
        norm_rows[(rows,)](
            x,
            x if weight is None else weight,
            x if residual is None else residual,
            out,
            x if scales is None else scales,
            eps,
            WIDTH=width,
            PADDED=padded,
            NORM=weight is not None,
            ADD=residual is not None,
            SCALED=scales is not None,
            num_warps=min(16, max(1, padded // 512)),
        )


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm over the last dimension of `x` (contiguous), computed in fp32."""
    out = torch.empty_like(x)
    launch(x, weight, None, out, None, eps)
    return out


def add_norm(hidden: Tensor, x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """hidden + rms_norm(x), in place: `hidden`."""
    launch(x, weight, hidden, hidden, None, eps)
    return hidden


def rms_norm_quantised(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """rms_norm(x) [rows, width] as fp8 (e4m3), and the fp32 scale [rows, 1] that it is a multiple of."""
    return quantised(x, weight, eps)


def quantise(x: Tensor) -> tuple[Tensor, Tensor]:
    """`x` [rows, width] as fp8 (e4m3), and the fp32 scale [rows, 1] that it is a multiple of."""
    return quantised(x, None, 0.0)


def quantised(x: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    out = torch.empty_like(x, dtype=torch.float8_e4m3fn)
    scales = torch.empty((x.shape[0], 1), dtype=torch.float32, device=x.device)
    launch(x, weight, None, out, scales, eps)
    return out, scales
