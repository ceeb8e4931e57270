"""Weight-only quantisation in plain PyTorch: eight bits per row or four per group, switched on the number of rows.

On a CPU, PyTorch's products with packed weights read a quarter or half of the bytes, which is all that counts for a few
rows; for many, they compute slower than a bf16 product, so the weight is restored once per call instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.errors import StartRefused
from engine.kernels.torch_linear import tensor_bytes
from engine.memory import INT4_GROUP

__all__ = ["Int4Linear", "Int8Linear", "pack_int4", "unpack_int4"]

MOST_ROWS_INT8 = 6
MOST_ROWS_INT4 = 48
"""Rows up to which the packed product is faster than restoring the weight (all layers of SmolLM2-135M, bf16, one Zen 4
core, packed and restored: eight bits 30.6 and 30.1 ms at 6 rows, four bits 122 and 128 ms at 48)."""

BLOCK = 64
"""Output rows packed together, two in each byte."""

ROWS_AT_ONCE = 1024
"""Rows quantised together, so that what is in between stays in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Int8Linear:
    """y = x Wᵀ + b, where row n of W is `weight[n]` · `scale[n]`."""

    weight: Tensor
    "[out, in] int8."
    scale: Tensor
    "[out] in the dtype of the activations."
    bias: Tensor | None

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None = None) -> Int8Linear:
        """`weight` [out, in], rounded to the nearest of 255 steps of each row's largest magnitude."""
        steps, scales = torch.empty_like(weight, dtype=torch.int8), weight.new_empty(len(weight))
        for start in range(0, len(weight), ROWS_AT_ONCE):
            part = weight[start : start + ROWS_AT_ONCE].to(torch.float32, copy=True)
            scale = (part.abs().amax(1) / 127).clamp_(min=torch.finfo(weight.dtype).tiny).to(weight.dtype)
            scales[start : start + ROWS_AT_ONCE] = scale
            steps[start : start + ROWS_AT_ONCE] = part.div_(scale.float()[:, None]).round_().clamp_(-127, 127)
        return cls(steps, scales, bias)

    @property
    def out_features(self) -> int:
        return self.weight.shape[0]

    @property
    def num_bytes(self) -> int:
        return tensor_bytes(self.weight, self.scale, self.bias)

    def __call__(self, x: Tensor) -> Tensor:
        if len(x) <= MOST_ROWS_INT8 and x.device.type == "cpu":
            result: Tensor = torch.ops.aten._weight_int8pack_mm(x.contiguous(), self.weight, self.scale)
        else:
            result = F.linear(x, self.weight.to(x.dtype)).mul_(self.scale)
        return result if self.bias is None else result.add_(self.bias)


@dataclass(frozen=True, slots=True)
class Int4Linear:
    """y = x Wᵀ + b, where a value of W is (q - 8) · scale + zero, with a scale and a zero per INT4_GROUP inputs."""

    packed: Tensor
    "See `pack_int4`."
    scales: Tensor
    "[in / INT4_GROUP, out, 2 (scale, zero)] in the dtype of the activations."
    bias: Tensor | None

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None = None) -> Int4Linear:
        """`weight` [out, in], rounded to the nearest of 16 steps between the ends of each group.

        Raises:
            StartRefused: kind bad_config; a shape that can't be divided into groups and blocks.
        """
        rows, columns = weight.shape
        if rows % BLOCK or columns % INT4_GROUP:
            raise StartRefused(
                "bad_config",
                f"--quantization int4 needs multiples of {BLOCK} outputs and {INT4_GROUP} inputs in each product; the "
                f"model has one of {rows} x {columns}; use int8",
            )
        parts = [quantise_int4(weight[start : start + ROWS_AT_ONCE]) for start in range(0, rows, ROWS_AT_ONCE)]
        return cls(torch.cat([packed for packed, _ in parts]), torch.cat([scales for _, scales in parts], 1), bias)

    @property
    def out_features(self) -> int:
        return self.scales.shape[1]

    @property
    def num_bytes(self) -> int:
        return tensor_bytes(self.packed, self.scales, self.bias)

    def __call__(self, x: Tensor) -> Tensor:
        if len(x) <= MOST_ROWS_INT4 and x.device.type == "cpu" and has_packed_product():
            packed = self.packed.view(self.out_features, -1)
            result: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(x.contiguous(), packed, INT4_GROUP, self.scales)
        else:
            result = x @ self.restored()
        return result if self.bias is None else result.add_(self.bias)

    def restored(self) -> Tensor:
        """Wᵀ, [in, out] in the dtype of the scales."""
        steps = unpack_int4(self.packed, self.scales.dtype)
        scale, zero = (part.contiguous()[:, None] for part in self.scales.unbind(-1))
        return torch.addcmul(zero, steps.view(-1, INT4_GROUP, steps.shape[1]), scale).view(steps.shape)


def quantise_int4(weight: Tensor) -> tuple[Tensor, Tensor]:
    """`weight` [out, in] packed, and its scales and zeros [in / INT4_GROUP, out, 2]."""
    rows, columns = weight.shape
    # Inputs first: what shares a scale is reduced over rows of memory, many times faster than along them.
    groups = weight.t().float().contiguous().view(columns // INT4_GROUP, INT4_GROUP, rows)
    low, high = groups.amin(1), groups.amax(1)
    scale = ((high - low) / 15).clamp_(min=torch.finfo(weight.dtype).tiny).to(weight.dtype)
    zero = (low + 8 * scale.float()).to(weight.dtype)
    steps = groups.sub_(zero.float()[:, None]).div_(scale.float()[:, None]).add_(8).round_().clamp_(0, 15)
    return pack_int4(steps.to(torch.uint8).view(columns, rows)), torch.stack((scale, zero), -1)


def pack_int4(steps: Tensor) -> Tensor:
    """`steps` [in, out] of 0 to 15 as [out / BLOCK, in, BLOCK / 2] bytes: in a block, row r in the low half of byte r,
    row r + BLOCK / 2 in its high half. It is what PyTorch's own product reads on a CPU with AVX-512."""
    columns, rows = steps.shape
    low, high = steps.view(columns, rows // BLOCK, 2, BLOCK // 2).unbind(2)
    return (low | (high << 4)).transpose(0, 1).contiguous()


def unpack_int4(packed: Tensor, dtype: torch.dtype) -> Tensor:
    """What `pack_int4` packed less 8, [in, out] in `dtype`."""
    blocks, columns, half = packed.shape
    steps = torch.empty(columns, blocks, 2, half, dtype=dtype, device=packed.device)
    for which, nibbles in enumerate((packed & 15, packed >> 4)):
        steps[:, :, which] = nibbles.view(torch.int8).sub_(8).transpose(0, 1)
    return steps.view(columns, -1)


@cache
def has_packed_product() -> bool:
    """Whether this machine's product reads the layout of `pack_int4`; the layout is PyTorch's own affair."""
    steps = (torch.arange(2 * BLOCK * INT4_GROUP).view(2 * BLOCK, INT4_GROUP) * 7 % 16).to(torch.int32)
    theirs = torch.ops.aten._convert_weight_to_int4pack_for_cpu(steps, 1)
    return torch.equal(theirs.flatten(), pack_int4(steps.t().contiguous().to(torch.uint8)).flatten())
