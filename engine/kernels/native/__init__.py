"""Kernels in C++ for CPUs that multiply bf16 (AVX512-BF16), compiled at first use: `torch.ops.engine_native`.

The layouts of weights and cache are described in `linear.h` and `attention.h`; `native_kernels.py` makes them.
"""

from __future__ import annotations

import functools

import torch

from engine.kernels.native.build import BuildFailed, built_library, missing_instructions

__all__ = ["why_unavailable"]


@functools.cache
def why_unavailable() -> str | None:
    """Load the kernels, which may compile them. None where that worked, else the reason."""
    missing = missing_instructions()
    if missing:
        return f"this CPU has no {', '.join(missing)}"
    try:
        torch.ops.load_library(built_library())  # type: ignore[no-untyped-call]
    except (BuildFailed, OSError) as error:
        return str(error)
    return None
