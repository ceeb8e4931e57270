"""Triton's interpreter, mended where it is wrong, and how near two results must be. Import it before any kernel."""

from __future__ import annotations

import os
from typing import Any

import torch
import triton.language as tl
import triton.runtime.interpreter as interpreter
from torch import Tensor

assert os.environ.get("TRITON_INTERPRET") == "1", "set TRITON_INTERPRET=1: there is no GPU to compile for"
torch.set_num_threads(1)


def index_numpy_2_4(tensor: Any, scope: Any, patch: Any = interpreter._patch_lang_tensor) -> None:
    """Triton 3.6 takes int() of an array with one element and one dimension, which NumPy 2.4 refuses."""
    patch(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))


def round_to_fp8(values: Any, source: Any, target: Any, mode: Any, convert: Any = interpreter._convert_float) -> Any:
    """The interpreter loses the carry where rounding to fp8 reaches the next power of two."""
    if target == tl.float8e4nv and source == tl.float32:
        return torch.from_numpy(values).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    return convert(values, source, target, mode)


interpreter._patch_lang_tensor = index_numpy_2_4
interpreter._convert_float = round_to_fp8

FP8 = torch.float8_e4m3fn
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, FP8: 0.12}
Lengths = list[tuple[int, int]]


def near(found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(found.float(), expected.float(), atol=tolerance, rtol=tolerance)
