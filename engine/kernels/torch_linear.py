"""Linear in plain PyTorch: on a CPU its weight is laid out once for oneDNN."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["TorchLinear", "can_prepack", "native_bf16", "tensor_bytes"]


def can_prepack(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether oneDNN can hold such weights in a blocked layout of its own: 1.4 to 1.7 times faster up to 32 rows."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return False
    return dtype == torch.float32 or (dtype == torch.bfloat16 and native_bf16())


def native_bf16() -> bool:
    """Whether this CPU multiplies bf16 without emulation."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def tensor_bytes(*tensors: Tensor | None) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)


@dataclass(frozen=True, slots=True)
class TorchLinear:
    """y = x Wᵀ + b, with x [tokens, in] and y [tokens, out]."""

    weight: Tensor
    "[out, in]; an opaque oneDNN tensor where `packed`."
    bias: Tensor | None
    packed: bool

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None = None) -> TorchLinear:
        """A Linear over `weight` [out, in], packed where that is possible. The packed copy is a new tensor."""
        if can_prepack(weight.dtype, weight.device):
            return cls(torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None), bias, True)
        return cls(weight, bias, False)

    @property
    def out_features(self) -> int:
        return self.weight.shape[0]

    @property
    def num_bytes(self) -> int:
        return tensor_bytes(self.weight, self.bias)

    def __call__(self, x: Tensor) -> Tensor:
        if self.packed:
            result: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
            return result
        return F.linear(x, self.weight, self.bias)
