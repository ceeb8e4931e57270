# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"
"""x Wᵀ for a handful of rows, with the norm before it and what follows it in the same pass.

With so few rows a step consists of reading the weights, and of launching kernels: everything between two products is
folded into one of them. Weights may be fp8 or int8 with a scale per output row.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.protocol import Activation
from engine.kernels.triton.gated import activate
from engine.kernels.triton.paged import pad_to_power_of_2

__all__ = ["MOST_ROWS", "skinny"]

MOST_ROWS = 4
"""With more, tensor cores and the separate kernels are as fast."""


@triton.jit(do_not_specialize=["rows"])
def multiply_rows(
    x,  # [rows, INPUTS]
    norm,  # [INPUTS]
    weight,  # [OUTPUTS, or 2 · OUTPUTS where GATED, INPUTS]
    scales,  # [OUTPUTS or 2 · OUTPUTS] fp32
    bias,  # [OUTPUTS or 2 · OUTPUTS]
    residual,  # [rows, OUTPUTS]
    out,  # [rows, OUTPUTS]
    eps,
    rows,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    OUTPUT_TILE: tl.constexpr,
    INPUT_TILE: tl.constexpr,
    NORM: tl.constexpr,
    SCALED: tl.constexpr,
    BIAS: tl.constexpr,
    GATED: tl.constexpr,
    GELU: tl.constexpr,
    ADD: tl.constexpr,
):
    columns = tl.program_id(0) * OUTPUT_TILE + tl.arange(0, OUTPUT_TILE)
    in_out = columns < OUTPUTS
    start = weight + columns.to(tl.int64)[:, None] * INPUTS
    # The second row of x finds this program's rows of the weight in the first-level cache.
    for row in range(rows):
        products = tl.zeros([OUTPUT_TILE, INPUT_TILE], tl.float32)
        up_products = tl.zeros([OUTPUT_TILE, INPUT_TILE], tl.float32)
        squares = tl.zeros([INPUT_TILE], tl.float32)
        for first in range(0, INPUTS, INPUT_TILE):
            inputs = first + tl.arange(0, INPUT_TILE)
            in_inputs = inputs < INPUTS
            in_weight = in_out[:, None] & in_inputs[None, :]
            part = tl.load(start + inputs[None, :], mask=in_weight, other=0.0)
            if GATED:
                up_part = tl.load(start + OUTPUTS * INPUTS + inputs[None, :], mask=in_weight, other=0.0)
            values = tl.load(x + row * INPUTS + inputs, mask=in_inputs, other=0.0).to(tl.float32)
            if NORM:
                squares += values * values
                values = values * tl.load(norm + inputs, mask=in_inputs, other=0.0).to(tl.float32)
            products += part.to(tl.float32) * values[None, :]
            if GATED:
                up_products += up_part.to(tl.float32) * values[None, :]

        result = tl.sum(products, 1)
        up = tl.sum(up_products, 1)
        if NORM:
            inverse = tl.rsqrt(tl.sum(squares, 0) / INPUTS + eps)
            result, up = result * inverse, up * inverse
        if SCALED:
            result = result * tl.load(scales + columns, mask=in_out, other=0.0)
            if GATED:
                up = up * tl.load(scales + OUTPUTS + columns, mask=in_out, other=0.0)
        if BIAS:
            result += tl.load(bias + columns, mask=in_out, other=0.0).to(tl.float32)
            if GATED:
                up += tl.load(bias + OUTPUTS + columns, mask=in_out, other=0.0).to(tl.float32)
        if GATED:
            result = activate(result, GELU) * up
        if ADD:
            result += tl.load(residual + row * OUTPUTS + columns, mask=in_out, other=0.0).to(tl.float32)
        tl.store(out + row * OUTPUTS + columns, result.to(out.dtype.element_ty), mask=in_out)


def skinny(
    x: Tensor,
    weight: Tensor,
    *,
    scales: Tensor | None = None,
    bias: Tensor | None = None,
    norm: Tensor | None = None,
    eps: float = 0.0,
    activation: Activation | None = None,
    residual: Tensor | None = None,
    processors: int = 132,
) -> Tensor:
    """x Wᵀ + b, at most MOST_ROWS rows.

    Args:
        x: [rows, inputs], contiguous; first normalised (RMSNorm) where `norm` is given.
        weight: [outputs, inputs], contiguous; a multiple of `scales` [outputs] fp32 where given.
        activation: the outputs are gate, then up: activation(gate) · up is returned, half as wide.
        residual: [rows, outputs] to add the result to, in place.
    """
    rows, inputs = x.shape
    matrices = 1 if activation is None else 2
    outputs = weight.shape[0] // matrices
    # 4096 weights of a program at once, in runs long enough for wide loads; and four programs for each multiprocessor
    # where there are as many outputs.
    output_tile = min(4 // matrices, pad_to_power_of_2(max(1, outputs // (4 * processors))))
    input_tile = min(pad_to_power_of_2(inputs), 4096 // (matrices * output_tile))
    out = residual
    if out is None:
        out = torch.empty((rows, outputs), dtype=x.dtype, device=x.device)
    multiply_rows[(-(-outputs // output_tile),)](
        x,
        x if norm is None else norm,
        weight,
        x if scales is None else scales,
        x if bias is None else bias,
        out,
        out,
        eps,
        rows,
        INPUTS=inputs,
        OUTPUTS=outputs,
        OUTPUT_TILE=output_tile,
        INPUT_TILE=input_tile,
        NORM=norm is not None,
        SCALED=scales is not None,
        BIAS=bias is not None,
        GATED=activation is not None,
        GELU=activation == "gelu_tanh",
        ADD=residual is not None,
        num_warps=4,
    )
    return out
