"""Linear layers on a GPU: cuBLAS for many rows, our own kernel for a handful; weights as they are, in fp8 or int8."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.protocol import Activation
from engine.kernels.triton.norm import quantise
from engine.kernels.triton.skinny import MOST_ROWS, skinny

__all__ = ["GpuLinear", "has_fp8"]

LARGEST = {torch.float8_e4m3fn: 448.0, torch.int8: 127.0}


def has_fp8() -> bool:
    """Whether the GPU multiplies fp8: compute capability 8.9 (Ada) or later."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 9)


@dataclass(frozen=True, slots=True)
class GpuLinear:
    """y = x Wᵀ + b. An fp8 weight makes the inputs of more than MOST_ROWS rows fp8 as well, each row with its scale."""

    weight: Tensor
    "[out, in], contiguous."
    scales: Tensor | None
    "[out] fp32: what a row of an fp8 or int8 weight is a multiple of."
    bias: Tensor | None

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None, stored: torch.dtype | None = None) -> GpuLinear:
        """A Linear over `weight`, kept as it is or, row by row, as multiples of a scale in `stored` (fp8 or int8)."""
        if stored is None:
            return cls(weight.contiguous(), None, bias)
        largest = LARGEST[stored]
        scales = weight.float().abs().amax(1).clamp_(min=1e-12) / largest
        values = weight.float() / scales[:, None]
        if stored == torch.int8:
            values.round_()
        return cls(values.clamp_(-largest, largest).to(stored), scales, bias)

    @property
    def out_features(self) -> int:
        return self.weight.shape[0]

    @property
    def num_bytes(self) -> int:
        parts = (self.weight, self.scales, self.bias)
        return sum(part.numel() * part.element_size() for part in parts if part is not None)

    @property
    def takes_fp8(self) -> bool:
        """Whether many rows are multiplied in fp8. The product wants sizes that are multiples of 16."""
        return self.weight.dtype == torch.float8_e4m3fn and all(size % 16 == 0 for size in self.weight.shape)

    def __call__(self, x: Tensor) -> Tensor:
        if 0 < x.shape[0] <= MOST_ROWS:
            return self.skinny(x)
        if self.scales is None:
            return F.linear(x, self.weight, self.bias)
        if self.takes_fp8:
            return self.fp8_product(*quantise(x), x.dtype)
        product = F.linear(x, self.weight.to(x.dtype)) * self.scales.to(x.dtype)
        return product if self.bias is None else product + self.bias

    def skinny(
        self,
        x: Tensor,
        *,
        norm: Tensor | None = None,
        eps: float = 0.0,
        activation: Activation | None = None,
        residual: Tensor | None = None,
        processors: int = 132,
    ) -> Tensor:
        """See `skinny.skinny`; at most MOST_ROWS rows."""
        return skinny(
            x,
            self.weight,
            scales=self.scales,
            bias=self.bias,
            norm=norm,
            eps=eps,
            activation=activation,
            residual=residual,
            processors=processors,
        )

    def fp8_product(self, x: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
        """`x` [tokens, in] in fp8, a multiple of `scales` [tokens, 1]; the result is in `dtype`."""
        assert self.scales is not None
        # Row-wise scales give bf16 and nothing else.
        product = torch._scaled_mm(x, self.weight.t(), scales, self.scales[None], out_dtype=torch.bfloat16)
        return (product if self.bias is None else product + self.bias).to(dtype)
